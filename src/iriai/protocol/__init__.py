"""Messages and protocols of node, home and broker, without I/O."""
