"""Permissions of users."""
