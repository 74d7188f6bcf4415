"""Handlers of what clients ask."""
