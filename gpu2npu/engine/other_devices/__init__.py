"""Code and values that are not for the NPU, and so stay: branches for other devices, CUDA's own code, other packages'
devices."""
