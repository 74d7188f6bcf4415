"""Hostile input for every entrance of docs/spec/010, section 2; `make fuzz` runs it for long."""
