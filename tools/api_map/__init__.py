"""Makes `torch_operators.json` and `torch_apis.json` of gpu2npu.support: which aten operators a torch API reaches."""
