"""Predictions of whole tables of measured kernels and models, and their errors: `roofline validate`."""
