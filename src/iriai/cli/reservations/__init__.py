"""Commands about reservations."""
