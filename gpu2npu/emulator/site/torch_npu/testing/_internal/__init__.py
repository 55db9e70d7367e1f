"""Bases of torch_npu's own tests."""
