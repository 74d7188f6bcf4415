"""What clients are told of machines, accounts and the cluster, from the cores."""
