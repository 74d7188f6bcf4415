"""How the launcher notices that the machine's owner uses it (docs/spec/016)."""
