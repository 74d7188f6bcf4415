"""The broker: matches requests with free machines by policy. It keeps nothing durable."""
