"""A simulated device with known truth: it proves the method without a GPU."""
