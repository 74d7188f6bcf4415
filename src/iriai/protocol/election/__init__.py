"""Which machine is the broker."""
