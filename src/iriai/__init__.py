"""iriai shares the computers of a laboratory fairly, without a head node."""

__all__ = ["__version__"]

__version__ = "0.1.0"
