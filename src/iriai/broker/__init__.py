"""The broker: idle machines and wants in, matches out, by policy. It keeps nothing durable."""
