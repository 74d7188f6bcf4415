"""Logs in, records out: replay and full simulation."""
