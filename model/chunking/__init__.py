"""Document 002: the reference of chunking as a program, for ordered consumers and for the two ways to share."""
