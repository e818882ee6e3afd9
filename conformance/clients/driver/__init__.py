"""pulsar-client, the client of applications, with the wire client's outcomes."""
