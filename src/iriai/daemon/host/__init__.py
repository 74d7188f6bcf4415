"""Sensors of this machine, and what it advertises of itself."""
