"""A client process of a soak: its producers and consumers, and what it records."""
