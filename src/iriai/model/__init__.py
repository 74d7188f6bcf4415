"""The nouns of iriai: frozen values without behaviour beyond their own arithmetic."""
