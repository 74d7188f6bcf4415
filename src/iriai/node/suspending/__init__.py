"""Claims that do not run at present: by their users, in turns, for higher queues or the owner."""
