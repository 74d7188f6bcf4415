"""Plug-ins: policies from files, and orders from installed packages."""
