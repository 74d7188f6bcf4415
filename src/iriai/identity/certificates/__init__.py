"""Keys and certificates of machines, operators and the cluster's authority."""
