"""Orders: who is next."""
