"""Serve an object store and a REST catalog on the loopback interface, with the latencies and failures of a configuration."""


class LabError(Exception):
    """Raised if the lab cannot start or cannot observe a command. The message states the reason and the remedy."""
