"""The machines of document 000."""
