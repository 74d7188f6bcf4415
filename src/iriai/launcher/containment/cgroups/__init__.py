"""Control groups of both versions: what is there, and pooled groups for tasks."""
