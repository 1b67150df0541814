"""The workloads: what is measured, on which shapes, with which kernels, and what the right answer is. All torch lives
here.
"""
