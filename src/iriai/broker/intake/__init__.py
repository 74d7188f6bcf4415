"""What nodes and homes send: reports and requests taken in, and who is heard of."""
