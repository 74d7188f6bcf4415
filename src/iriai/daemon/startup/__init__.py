"""Startup of the daemon: settings and listeners."""
