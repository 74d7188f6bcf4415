"""What is checked of each part of a world, after its turns and at its end."""
