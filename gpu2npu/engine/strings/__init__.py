"""Strings: what one means where it stands, judged by its place and by the words of the code."""
