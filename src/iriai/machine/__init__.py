"""One machine: its parts together, with messages between them delivered on the spot."""
