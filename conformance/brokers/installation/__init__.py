"""Getting a release: artifacts, with checksums, into the cache; nothing is started."""
