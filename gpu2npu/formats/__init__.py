"""Files that are not Python source: each format reads a text with exact positions and says what to change in it."""
