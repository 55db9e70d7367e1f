"""A library's functions, and which of them reach something that an NPU lacks."""
