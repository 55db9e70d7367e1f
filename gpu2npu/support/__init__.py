"""Facts about each torch_npu release: which operators and Python names it has."""
