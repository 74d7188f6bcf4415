"""Worlds with a machine that lies: what it may say, and what nobody may believe."""
