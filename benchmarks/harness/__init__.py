"""What the benchmarks share: options, medians, the machine's facts, peers, a private iriai."""
