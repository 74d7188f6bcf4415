"""Charges, and their decay."""
