"""Virtual time: the product's own cores and policies, driven by workload logs and by faults."""
