"""Everything that touches the world: brokers, clients, faults, histories, lockstep, verdicts, reports, the command line."""
