"""What a pass works on: queues by account, placement, reserved heads, contention."""
