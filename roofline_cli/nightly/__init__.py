"""`roofline nightly`: one nightly run, its verdict, its alerts."""
