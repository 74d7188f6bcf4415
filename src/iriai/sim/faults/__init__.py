"""Scenarios from a seed, lying members, and the checker of invariants."""
