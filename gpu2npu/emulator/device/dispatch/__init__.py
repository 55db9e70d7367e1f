"""Operators: how PyTorch's dispatcher finds who computes one, and what is around the computing."""
