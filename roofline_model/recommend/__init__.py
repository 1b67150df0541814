"""Which format for this shape, this model? Options, the one rule that ranks them, and what they lose."""
