"""Messages to bytes and back, versions included; no sockets."""
