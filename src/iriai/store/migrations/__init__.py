"""Revisions of the schema in order, run by `store.migrate`."""
