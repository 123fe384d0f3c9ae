"""Lab: an object store and a REST catalog on loopback for real clients, with the latencies and failures of a configuration."""


class LabError(Exception):
    """The lab cannot start, or a command cannot be observed; the message names the reason and the remedy."""
