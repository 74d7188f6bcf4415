"""All messages and effects, and the nouns in them."""
