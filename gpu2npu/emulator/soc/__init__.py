"""What differs between Ascend chips."""
