"""Commands about shares and usage."""
