"""The driver of the Go client; it is compiled on first use."""
