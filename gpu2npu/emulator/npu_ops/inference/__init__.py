"""torch_npu's operators for inference: attention over caches of keys and values, and the upkeep of these."""
