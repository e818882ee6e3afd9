"""Document 000: applications that publish and consume effectively once (DEDUP-13 to DEDUP-18)."""
