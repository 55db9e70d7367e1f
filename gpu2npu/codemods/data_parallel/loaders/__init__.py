"""The DataLoaders of a program whose ranks share each batch."""
