"""The soak: many clients, many topics, faults, for hours, and a history of all of it that ``verify`` judges.

``plan`` derives everything a soak consists of from one seed. ``run`` is the procedure: load and faults, the quiesce
phase, reading back. ``worker`` has the client processes.
"""
