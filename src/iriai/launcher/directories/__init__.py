"""Scratch directories, spool, and their removal."""
