"""What daemon and launcher agree on: messages, and the machine's configuration."""
