"""Requests about the cluster: tokens, documents, joining."""
