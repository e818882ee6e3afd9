"""The machines of document 003."""
