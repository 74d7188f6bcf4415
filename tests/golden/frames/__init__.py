"""The bytes of every message and of every stored value, held as texts beside this."""
