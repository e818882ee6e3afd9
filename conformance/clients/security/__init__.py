"""Service addresses, TLS and authentication."""
