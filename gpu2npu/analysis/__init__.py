"""The needs of a project that an NPU lacks."""
