"""Benchmarks of this software itself; `python -m benchmarks`. See README.md beside this file."""
