"""The queue: entries, classes of alike tasks, and the index that finds what fits."""
