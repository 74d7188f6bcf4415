"""The node: the only authority over one machine."""
