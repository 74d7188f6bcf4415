"""The scheduling cycle: passes, matches that are not confirmed yet, explanations and estimates."""
