"""Measures how much of PyTorch the emulated NPU runs, by PyTorch's own tables of operators, modules and optimizers."""
