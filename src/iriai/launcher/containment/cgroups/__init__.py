"""Control groups of both versions: detection, and pooled groups for tasks."""
