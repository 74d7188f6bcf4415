"""How many links a machine may have; apart from links, for a machine that has none."""

LINKS_MAX = 600
"""More than a cluster of 500 needs, below the usual limit of 1,024 descriptors of a process."""
