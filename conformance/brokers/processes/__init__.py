"""The processes of a deployment: ZooKeeper, bookie and broker, each with its configuration and its command.

Nothing here decides when one is started or ended: that is :mod:`conformance.brokers.deployment`.
"""
