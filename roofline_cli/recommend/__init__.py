"""`roofline recommend`, `losses`, `pipeline`."""
