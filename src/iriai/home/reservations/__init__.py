"""Reservations at their home: how nodes are found and held for them, and the jobs inside."""
