"""All that happens before the daemon serves: settings, state directory, hardware, listeners."""
