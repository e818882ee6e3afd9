"""What commands that run the engine share: the engine as a process, its supervision, interrupts, folders."""
