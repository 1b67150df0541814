"""This machine's real ceilings, measured: what `--hw auto` and `roofline calibrate` use."""
