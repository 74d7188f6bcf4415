"""Talking to a daemon: a typed connection for programs and for the command line."""
