"""What a broker permits of reservations."""
