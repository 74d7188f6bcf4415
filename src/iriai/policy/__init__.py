"""Pure decisions, one per file: who is next, what use costs, what an account may take."""
