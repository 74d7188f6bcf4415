"""Virtual machines, networks, stores and launchers."""
