"""Document 000: deduplication of published messages (DEDUP rules)."""
