"""Draws: what contends, the interface of an order, and what several orders draw with."""
