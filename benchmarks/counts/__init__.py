"""What the guard counts: cases in which the product does the same each time, and counters."""
