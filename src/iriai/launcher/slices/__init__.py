"""Time slices: the process that switches between groups at moments of the clock."""
