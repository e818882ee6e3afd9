"""Faults inside a running broker: failpoints and seeded defects, switched on and off through its Byteman agent.

``byteman`` speaks the agent's protocol, ``catalogue`` reads the rules that are shipped as files, ``failpoints`` and
``defects`` switch them. Faults of the network and of the broker's process live elsewhere.
"""
