"""The text of a file: bytes, offsets, tokens, literals, concrete syntax and edits."""
