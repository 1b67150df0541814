"""FlashAttention 1 to 4 as the kernels really are: tiles, traffic, units, splits, and which chip runs which."""
