"""The helper between launcher and task."""
