"""Reports: the verdicts of a run for people and for machines. Nothing here decides anything."""
