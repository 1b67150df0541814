"""What to do: headlines, trade-offs, the matrix of shapes and configurations."""
