"""Identity: keys and certificates, signed documents, trust and permissions."""
