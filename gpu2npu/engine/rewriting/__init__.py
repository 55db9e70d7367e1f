"""Edits in Python that several kinds of rules make: of names, calls, arguments, statements and imports."""
