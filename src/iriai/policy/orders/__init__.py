"""Orders: who is next. Each module has one, under the name by which `[order] name` finds it."""
