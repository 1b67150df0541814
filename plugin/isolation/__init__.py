"""Tests in processes of their own: one sticky error, hang or abort costs one case, and cases repeat in fresh
processes.
"""
