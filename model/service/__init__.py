"""What a broker owes its clients, whichever document a topic is about: the rules of the family SERVE."""
