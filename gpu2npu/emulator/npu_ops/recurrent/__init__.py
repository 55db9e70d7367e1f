"""torch_npu's recurrent layers: one operator for all steps of a sequence, as CANN's DynamicRNN and DynamicGRUV2."""
