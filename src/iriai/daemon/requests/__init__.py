"""Handlers of client requests."""
