"""Membership: SWIM with Lifeguard."""
