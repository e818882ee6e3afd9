"""Stored histories, performed again on a real broker: those of deviations, and those of seeded defects."""
