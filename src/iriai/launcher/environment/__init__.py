"""Users and environment variables of tasks."""
