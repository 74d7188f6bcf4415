"""The session agent: says that somebody uses a graphical session, and nothing else (spec 016)."""
