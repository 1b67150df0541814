"""Quantised models in a folder: saved, loaded, exported."""
