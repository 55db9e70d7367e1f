"""How much of PyTorch the emulated NPU runs, proved by PyTorch's own tables of operators, modules and optimizers."""
