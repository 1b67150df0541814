"""How one case is timed: operand sets, warm-up, samples, when to stop, and what the samples say."""
