"""Following a job from a terminal."""
