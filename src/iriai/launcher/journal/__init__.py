"""The durable journal of starts and ends."""
