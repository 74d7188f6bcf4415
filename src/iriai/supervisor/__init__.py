"""`iriai up`: start, watch and restart the launcher and the daemon."""
