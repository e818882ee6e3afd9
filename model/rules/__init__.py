"""The statements of the five documents, a module for each document."""
