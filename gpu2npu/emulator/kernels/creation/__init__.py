"""Operators that make tensors: constants, ranges and random numbers."""
