"""Pure decisions, one per file: who is next, what usage costs, how much an account may use."""
