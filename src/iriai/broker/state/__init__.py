"""State of the queue for a pass: queues by account, placement, reserved heads, contention."""
