"""Programs that reproduce a find without the suite."""
