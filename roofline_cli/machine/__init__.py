"""`roofline calibrate`, `doctor`, `hardware`, `formats`."""
