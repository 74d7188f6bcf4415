"""Placement in time: availability profiles, backfill, limits, whole policies."""
