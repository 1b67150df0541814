"""Which sizes are run."""
