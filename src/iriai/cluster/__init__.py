"""One machine as a member of its cluster: membership, directory, ledger and site view together."""
