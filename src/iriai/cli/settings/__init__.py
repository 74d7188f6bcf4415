"""Commands that change settings while daemons run."""
