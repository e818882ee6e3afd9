"""The machines of document 004."""
