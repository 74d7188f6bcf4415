"""What the product says and stores, held as files: a change of them is a change for others."""
