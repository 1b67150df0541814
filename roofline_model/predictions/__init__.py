"""The answers of `roofline predict` and of the API: frozen values that every surface renders, one file per question."""
