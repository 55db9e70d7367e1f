"""What a project needs that an NPU lacks."""
