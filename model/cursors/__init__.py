"""Document 003: individual acknowledgment, and the cursors that remember it."""
