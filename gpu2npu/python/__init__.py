"""The meaning of Python files: trees with exact offsets, scopes, qualified names, kinds of objects, the import graph.

It knows no rule and no NPU. Everything that asks what code means asks this package.
"""
