import torch

from gpu2npu.support.operators import TABLE, torch_results
from tools import torch_results as generator


def test_the_table_is_what_the_schemas_say() -> None:
    """With the PyTorch it was made of; of another release, that most of it is there."""
    import json

    shipped = json.loads(TABLE.read_text(encoding="utf-8"))
    made = generator.results()
    if shipped["torch"] == torch.__version__.partition("+")[0]:
        assert made == shipped
    assert len(set(made["tensor"]) & set(shipped["tensor"])) > 0.9 * len(shipped["tensor"])


def test_what_calls_really_give() -> None:
    known = torch_results()
    x = torch.rand(3, 3)
    for name in ("add", "sum", "view", "t", "argmax", "abs"):
        assert f"torch.Tensor.{name}" in known.tensor and f"torch.Tensor.{name}" not in known.tensors
    for name in ("topk", "chunk", "unbind"):
        assert f"torch.Tensor.{name}" in known.tensors and f"torch.Tensor.{name}" not in known.tensor
    assert "torch.Tensor.max" in known.tensor and "torch.Tensor.max" in known.tensors
    assert isinstance(x.max(), torch.Tensor) and isinstance(x.max(0)[0], torch.Tensor)
    for name in ("item", "size", "dim", "tolist", "numpy", "data_ptr"):
        assert f"torch.Tensor.{name}" not in known.tensor | known.tensors and name in known.methods
