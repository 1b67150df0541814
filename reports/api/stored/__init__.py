"""Answers from the results database."""
