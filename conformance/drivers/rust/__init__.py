"""The driver of the Rust client; it is compiled on first use."""
