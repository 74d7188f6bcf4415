"""GPUs: which there are, which nodes of the system open them, and whose they are."""
