"""A look at a machine before anything runs on it: its records, and the checks of `gpu2npu doctor`.

Nothing of torch, torch_npu or CANN is imported or loaded: files are read, and `npu-smi` is run.
"""
