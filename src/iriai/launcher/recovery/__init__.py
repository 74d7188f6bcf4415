"""What an earlier launcher left."""
