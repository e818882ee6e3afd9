"""What the machines have drawn: which operation followed which, and what no run drew yet."""
