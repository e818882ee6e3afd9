"""Where a run has its namespaces on a cluster, what it changes outside of them, and how nothing of it is left."""
