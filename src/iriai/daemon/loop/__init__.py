"""Turns: events in, one commit, effects out."""
