"""Connections between machines: dial, accept, handshake, frames."""
