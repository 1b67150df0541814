"""Rows of the rankings over all stored runs."""
