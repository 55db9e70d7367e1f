"""Fused shapes: code that spells out what torch_npu has one operator for, recognised by what it computes.

`shapes.json` is the catalogue: most shapes are patterns over terms, others have a module with a function that finds
them. Advice and `--affinity` have the same finder: advice is what it found.
"""
