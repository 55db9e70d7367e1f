"""Strings: what one means where it is, judged by its place and by the words of the code."""
