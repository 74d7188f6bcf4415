"""Bytes and frames over sockets and TLS."""
