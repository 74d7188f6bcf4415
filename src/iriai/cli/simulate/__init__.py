"""`iriai simulate`: logs replayed, and faults searched for."""
