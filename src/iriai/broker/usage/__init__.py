"""Usage of accounts."""
