"""The process manager interface of MPI programs, PMI-1."""
