"""`roofline pr`: two checkouts measured in turn, and their diff."""
