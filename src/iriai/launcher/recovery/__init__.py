"""Recovery from an earlier launcher."""
