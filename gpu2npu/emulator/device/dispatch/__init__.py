"""Operators: how PyTorch's dispatcher finds who computes one, and what stands around the computing."""
