"""One file in, new text, changes and findings out. No I/O."""
