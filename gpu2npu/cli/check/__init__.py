"""`gpu2npu check`."""
