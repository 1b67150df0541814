"""What to do: rankings of phases, trade-offs, the matrix of shapes and configurations."""
