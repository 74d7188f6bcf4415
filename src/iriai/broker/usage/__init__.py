"""What accounts have used, and when off-peak hours are."""
