"""torch_npu's operators on int8 and int4 numbers, as documented in `torch_npu/_op_plugin_docs.py` (2.13.0)."""
