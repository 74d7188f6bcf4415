"""Scripts, environments and inputs of jobs, and descriptors that clients pass."""
