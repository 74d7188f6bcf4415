"""Whom a task runs as, and with which variables."""
