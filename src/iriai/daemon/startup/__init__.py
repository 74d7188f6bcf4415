"""Startup of the daemon: settings, state directory, hardware, listeners."""
