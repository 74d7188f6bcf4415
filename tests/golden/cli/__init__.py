"""What people and scripts see of the command line; `python -m tests.golden.cli` writes it anew."""
