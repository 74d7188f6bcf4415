"""The home: jobs from submission to result."""
