"""Facts out of wheels: what each torch_npu has, and the names of torch.cuda. See `__main__` for the command."""
