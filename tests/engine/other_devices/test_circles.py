"""Names that are bound to themselves, directly and through others: every question about them ends."""

import pytest

import gpu2npu

HEAD = "import os\nimport torch\nfrom torch.nn import DataParallel\na = {start}\nb = a\nc = b\n"
ROUND = [
    "a = a or b",
    "a = not a",
    "a = b\nb = a",
    "a = a if b else c",
    "a = a and b",
    "a = (a, b)[0]",
    "a = {'x': a}['x']",
    "a += b",
    "a = lambda: a",
    "a = a.device.type",
    "a = a == 'cuda' or a",
    "a = a.split(':')[0]",
    "a = f'{a}'",
    "a, b = b, a",
    "a = getattr(a, b, a)",
    "a = (a := b)",
    "a = a is not None",
    "a = all((a, b))",
]
CODE = """
if a:
    torch.cuda.empty_cache()
if a == "cuda" or not a:
    x.cuda()
if a >= (8, 0) and "cuda" in a:
    x.to(a)
y = x.cuda() if a else DataParallel(a)
while torch.cuda.is_available() and a[0] >= 8:
    torch.zeros(2, device=a)
match a:
    case "cuda":
        x.cuda()
assert a
"""
STARTS = ['"cuda"', "torch.version.cuda", "torch.cuda.is_available()", "torch.cuda.get_device_capability()"]


@pytest.mark.parametrize("bound", ROUND)
def test_a_circle_of_names_ends(bound: str) -> None:
    for start in STARTS:
        text = gpu2npu.migrate_source(HEAD.format(start=start) + bound + CODE, version="2.7.1").text
        assert "import torch_npu" in text
