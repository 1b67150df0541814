"""`roofline fit`, `validate`."""
