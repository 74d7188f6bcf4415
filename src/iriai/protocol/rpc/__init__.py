"""Questions between machines."""
