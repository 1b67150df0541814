"""Statistics over processes and runs."""
