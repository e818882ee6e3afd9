"""Document 004: Key_Shared subscriptions, and the draining hashes that keep each key with one consumer at a time."""
