"""Scripts, environments and inputs of jobs."""
