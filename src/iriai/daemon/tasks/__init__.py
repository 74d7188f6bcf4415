"""The launcher's client, notifications, output of tasks, and retention."""
