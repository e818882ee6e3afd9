"""Tests of the clients: the codec by itself, the connection against a scripted peer, the rest on a real broker."""
