"""Elementwise operators, and lists of them."""
