"""The operating system's services. It imports the model only."""
