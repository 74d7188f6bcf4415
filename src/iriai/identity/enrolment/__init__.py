"""Founding a cluster and letting machines in."""
