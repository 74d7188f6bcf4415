"""What use costs, and how it fades."""
