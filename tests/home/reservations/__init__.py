"""The reservations of a home."""
