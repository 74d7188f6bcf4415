"""What holds the processes of a task together, and away from others."""
