"""Operators that reduce, scan, sort or count along dimensions."""
