"""One simulation, several, and their document."""
