"""Delivery: authorization of messages, and retransmission."""
