"""Who is asking: the users behind a connection, and what they may do."""
