"""Small faults put into the cores on purpose: what the simulator must find."""
