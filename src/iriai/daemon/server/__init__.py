"""Serving clients in turns, so that no one waits long because of another."""
