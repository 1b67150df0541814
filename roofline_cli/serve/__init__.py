"""`roofline serve`."""
