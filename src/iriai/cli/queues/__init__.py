"""Commands about queues."""
