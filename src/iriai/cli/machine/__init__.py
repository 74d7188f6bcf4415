"""Commands about this machine and the machines of the cluster."""
