"""The rules of the family SERVE: what a broker owes its clients in every document."""
