"""A simulated broker: the references behind the performer's interface, for tests without a broker."""
