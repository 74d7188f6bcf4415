"""Usage of accounts, and off-peak hours."""
