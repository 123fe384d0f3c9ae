"""Lab: an object store and a REST catalog on loopback for real clients, with the latencies and failures of a configuration."""


class LabError(Exception):
    """Raised if the lab cannot start or a command cannot be observed; the message contains the reason and the remedy."""
