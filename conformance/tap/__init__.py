"""The tap: a proxy in front of an application that records what passes on the wire as a history."""
