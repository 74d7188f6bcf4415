"""Requests about reservations."""
