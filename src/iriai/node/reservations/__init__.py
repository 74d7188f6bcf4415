"""What a node lets be reserved, and what else lies ahead of it."""
