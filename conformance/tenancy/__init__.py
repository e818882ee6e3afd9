"""A run's namespaces on a cluster, the settings that it changes, and how it removes everything."""
