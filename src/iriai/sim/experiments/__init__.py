"""Paper 000 run again: one module for each figure (docs/guide/experiments.md)."""
