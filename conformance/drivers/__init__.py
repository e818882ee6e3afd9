"""Drivers of released clients, how to obtain them, and the contract that each driver keeps."""
