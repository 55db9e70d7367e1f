"""What was found out about the NPU."""
