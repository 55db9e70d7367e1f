"""Rows of the table of behaviour from the documents of torch_npu, op-plugin and CANN, read from checkouts."""
