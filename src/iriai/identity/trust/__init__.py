"""Trust: valid certificates, consents, trusted homes, TLS contexts."""
