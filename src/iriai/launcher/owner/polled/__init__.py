"""Sensors that look again and again: what uses the machine, and in which state that is."""
