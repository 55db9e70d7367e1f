"""NumPy kernels, one module a family, registered by aten name."""
