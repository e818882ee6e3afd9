"""The machines of document 002."""
