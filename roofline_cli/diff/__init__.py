"""`roofline diff`, `history`."""
