"""Affinity: code that spells out what torch_npu has one operator for becomes a call of that operator.

A module for each kind says what it recognises, by what the code computes; `edit.py` makes the edit, or refuses it where
the code around does not allow for it. The new code calls templates/ascend_affinity, which computes what the old code
did for all that an operator does not take: another device, dtype or shape.
"""
