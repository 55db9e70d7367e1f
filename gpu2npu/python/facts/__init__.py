"""The facts of one Python file, in one immutable record: made by one parse and one walk, kept by content."""
