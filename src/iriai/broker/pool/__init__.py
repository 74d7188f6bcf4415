"""The pool: machines as the broker knows them, and which of them match a task."""
