"""Everything that touches the world: brokers, clients, faults, lockstep, histories, verdicts, reports, commands."""
