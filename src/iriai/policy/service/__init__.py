"""Shares of the daemon itself: how much of its connections, memory and time one user may take."""
