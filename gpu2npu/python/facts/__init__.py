"""What the text of one Python file says, in one immutable record: made by one parse and one walk, kept by content."""
