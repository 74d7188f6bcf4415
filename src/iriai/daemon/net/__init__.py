"""Connections between machines: dial, accept, handshake, relay, keep alive."""
