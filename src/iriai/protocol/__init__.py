"""What node, home and broker say to each other, and what they ask of whoever drives them."""
