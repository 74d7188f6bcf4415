"""Whom to believe: certificates that count, consents, trusted homes, TLS contexts."""
