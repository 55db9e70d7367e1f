"""Notes about the NPU."""
