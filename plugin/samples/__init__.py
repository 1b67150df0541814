"""The samples of a case: operands, check, warm-up, when to stop, and what they say."""
