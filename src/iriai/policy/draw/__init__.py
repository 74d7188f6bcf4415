"""Draws: contenders, the interface of an order, and common parts of orders."""
