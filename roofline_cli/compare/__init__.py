"""`roofline compare`."""
