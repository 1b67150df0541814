"""`roofline predict`, `sweep`, `tiling`."""
