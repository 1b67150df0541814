"""NVIDIA GPUs: CUDA timers and graphs, kernel attribution, NVML, and sharing devices between processes."""
