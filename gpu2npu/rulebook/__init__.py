"""Rule files in, checked rules out."""
