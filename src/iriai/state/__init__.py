"""The state directory of a machine: its owner, its role, its backups, what waits for a start."""
