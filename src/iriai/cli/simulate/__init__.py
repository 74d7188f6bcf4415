"""`iriai simulate`: replays of logs, and searches for faults."""
