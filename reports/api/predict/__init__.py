"""Answers of the model: products, attention, models, sweeps."""
