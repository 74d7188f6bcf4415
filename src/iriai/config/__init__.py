"""iriai.toml: its sections, their values and how it is read."""
