"""Requests about machines and the daemon itself."""
