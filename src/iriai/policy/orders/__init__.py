"""Orders: who is next. Each module holds one, under the name by which `[order] name` finds it."""
