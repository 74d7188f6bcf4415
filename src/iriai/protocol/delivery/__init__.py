"""Who may say what, and what is sent again."""
