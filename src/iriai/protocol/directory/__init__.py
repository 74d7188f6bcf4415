"""Signed entries, and anti-entropy between machines."""
