"""Scenarios from a seed, and the checker of invariants."""
