"""Intake of reports and requests from nodes and homes, and their sessions."""
