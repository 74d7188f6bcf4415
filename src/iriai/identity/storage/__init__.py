"""The cluster's files, and the join tokens that were issued."""
