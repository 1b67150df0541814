"""What measuring costs beyond the kernels, and whether its intervals hold."""
