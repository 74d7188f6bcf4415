"""Election of the broker."""
