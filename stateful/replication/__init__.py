"""The machines of document 001."""
