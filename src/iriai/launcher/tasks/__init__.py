"""Admission, running tasks, limits and leases."""
