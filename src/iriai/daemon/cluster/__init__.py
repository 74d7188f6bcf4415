"""Membership and directory driven by the daemon, and questions to other machines."""
