"""What is predicted, in blocks: kernels, passes of a model, tiles, and what a ranking of predictions says to take."""
