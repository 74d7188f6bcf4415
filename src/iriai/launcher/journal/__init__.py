"""What was begun and what ended, durably."""
