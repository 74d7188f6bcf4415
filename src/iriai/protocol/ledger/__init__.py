"""Usage counters that merge."""
