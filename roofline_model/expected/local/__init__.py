"""Expected times on a machine that calibrated itself."""
