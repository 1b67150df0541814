"""What exists where: kernels of libraries and engines by chip, with sources."""
