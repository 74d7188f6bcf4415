"""Mount namespaces of tasks, in which /tmp and /dev/shm are private."""
