"""Operators that move elements: by index, by shape."""
