"""The contract of daemon and launcher: messages, and the machine's configuration."""
