"""Prolog and epilog."""
