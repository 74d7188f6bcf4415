"""This machine: its hardware, speed, load and file systems, and what it advertises of these."""
