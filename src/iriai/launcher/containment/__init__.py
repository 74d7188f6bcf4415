"""Containment: holds the processes of a task together, and apart from others."""
