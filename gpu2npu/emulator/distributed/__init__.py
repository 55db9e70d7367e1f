"""hccl process groups over gloo."""
