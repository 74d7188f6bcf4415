"""What fits when: availability profiles, backfill, limits, whole policies."""
