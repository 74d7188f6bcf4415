"""Links with other machines: whom to dial and where, which link stays, relays, keepalive. Pure."""
