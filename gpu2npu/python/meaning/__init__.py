"""The meaning of names and expressions: qualified names, kinds of objects, classes."""
