"""Code that others wrote and iriai runs: policies from files."""
