"""One machine: node, home and broker together, with messages between them delivered at once."""
