"""Operations, outcomes and events in sentences."""
