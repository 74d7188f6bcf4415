"""Machines as the broker knows them, which of them are alike, and which match a task."""
