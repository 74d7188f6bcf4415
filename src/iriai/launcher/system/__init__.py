"""Clock, system calls, log, timers and crash points of the launcher."""
