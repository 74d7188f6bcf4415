"""The launcher's client, notifications, and the output of tasks."""
