"""What the operating system offers, in our words. It imports the model only."""
