import pytest

from gpu2npu.analysis.torch_apis.numeric_advice import DOUBLE, HALF, numeric_advice
from gpu2npu.records import AdviceKind


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("torch.set_default_dtype(torch.float64)", [DOUBLE]),
        ("torch.set_default_dtype(torch.float32)", []),
        ("nn.Linear(1, 1, dtype=torch.double)", [DOUBLE]),
        ("nn.LayerNorm(1, dtype=torch.double)", []),
        ("nn.Linear(1, 1).double()", [DOUBLE]),
        ("torch.zeros(1).double()", []),
        ("x.double()", []),
        ("class N(nn.Module): ...\nN().half()", [HALF]),
        ("class N(nn.Module):\n    def half(self): ...\nN().half()", []),
        ("class N(nn.Module): ...\nN().half(k=1)", []),
        ("class N(nn.Module): ...\nN().half(1)", []),
        ("torch.autocast('cuda', dtype=torch.float16)", [HALF]),
        ("torch.autocast('cuda', dtype=torch.bfloat16)  # not float16", []),
        ("torch.cuda.amp.autocast(dtype=torch.half)", [HALF]),
    ],
)
def test_advice_on_number_formats(parse, text: str, rules: list[str]) -> None:
    code = parse(f"import torch\nfrom torch import nn\n{text}\n")
    found = numeric_advice(code)
    assert [advice.rule for advice in found] == rules
    assert all(advice.kind is AdviceKind.PRECISION for advice in found)
