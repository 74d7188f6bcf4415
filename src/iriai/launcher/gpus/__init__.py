"""GPUs: detection, device nodes, and assignment."""
