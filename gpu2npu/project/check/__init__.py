"""A check of source trees: one, many, or standard input."""
