"""Reading histories as Parquet, from any file system; nothing is judged."""
