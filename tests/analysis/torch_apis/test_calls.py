import pytest

from gpu2npu.analysis.torch_apis import calls as torch_apis
from gpu2npu.analysis.torch_apis.calls import torch_api_findings
from gpu2npu.records import FindingKind, Severity
from gpu2npu.support.verdicts import ApiVerdict, VerdictKind

KINDS = {
    "torch.slow": VerdictKind.FALLBACK,
    "torch.Tensor.slow": VerdictKind.FALLBACK,
    "torch.nn.Module.slow": VerdictKind.FALLBACK,
    "torch.refused": VerdictKind.UNSUPPORTED,
    "torch.nn.Refused": VerdictKind.UNSUPPORTED,
    "torch.nn.Later": VerdictKind.UNSUPPORTED,
    "torch.strange": VerdictKind.UNKNOWN,
    "torch.serialization.strange": VerdictKind.UNKNOWN,
    "torch.xpu.strange": VerdictKind.UNKNOWN,
    "torch.cuda.slow": VerdictKind.FALLBACK,
    "torch.supa.strange": VerdictKind.UNKNOWN,
    "torch.ops.aten.slow": VerdictKind.FALLBACK,
    "torch.Tensor.index": VerdictKind.UNSUPPORTED,
    "torch.Tensor.share_memory_": VerdictKind.UNSUPPORTED,
    "torch.nn.Module.share_memory": VerdictKind.UNSUPPORTED,
    "torch.compile": VerdictKind.UNKNOWN,
    "torch_npu.profiler.Watch": VerdictKind.UNSUPPORTED,
}


@pytest.fixture(autouse=True)
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts that do not depend on what a release happens to support."""
    caches = (torch_apis._is_reported, torch_apis._may_be_reported)

    def judge(api: str, version: str) -> ApiVerdict:
        kind, later = KINDS.get(api, VerdictKind.NATIVE), "2.4.0" if api.endswith("Later") else ""
        return ApiVerdict(api, kind, f"aten::op of {api}", "do something else", later=later)

    monkeypatch.setattr(torch_apis, "verdict", judge)
    monkeypatch.setattr(torch_apis, "judged_leaves", lambda: {api.rpartition(".")[2] for api in KINDS})
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def found(code) -> list[tuple[int, str, str]]:
    findings = torch_api_findings(code, "2.1.0")
    assert all(finding.rule == "torch-api" and "do something else" in finding.message.lower() for finding in findings)
    return [(finding.span.start_line, finding.kind.value, finding.api) for finding in findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ntorch.slow(x)", [(2, "fallback", "torch.slow")]),
        ("from torch import slow as s\ns(x)", [(2, "fallback", "torch.slow")]),
        ("import torch\ntorch.refused(x)", [(2, "unsupported", "torch.refused")]),
        ("from torch import torch\ntorch.slow(x)", [(2, "fallback", "torch.slow")]),
        ("from torch import torch\ntorch.cuda.slow(x)", []),
        ("from torch.functional import torch as th\nth.xpu.strange(x)", []),
        ("import torch\ntorch.strange(x)", [(2, "unknown", "torch.strange")]),
        ("import torch\ntorch.fine(x)", []),
        ("import torch\nx = torch.zeros(1)\nx.slow()", [(3, "fallback", "torch.Tensor.slow")]),
        ("import torch, lib\nx: torch.Tensor = lib.weights\nx.slow()", [(3, "fallback", "torch.Tensor.slow")]),
        ("import torch, lib\nlib.slow()\nlib.torch.slow()", []),
        ("import torch\nx = [1]\nx.slow()", []),
        ("import torch\ndef f(x):\n    x.slow()", []),
        ("import torch\nmap(torch.slow, xs)", [(2, "fallback", "torch.slow")]),
        ("import torch\nmap(torch.strange, xs)", []),
        ("import torch\n@torch.strange\ndef f(): ...", [(2, "unknown", "torch.strange")]),
        ("import torch\ntorch.supa.strange(x)", []),
        ("import torch\ntorch.ops.aten.slow(x)", [(2, "fallback", "torch.ops.aten.slow")]),
        ("import torch\ntable = {torch.ops.aten.slow: f}", []),
        ("import torch\nx = torch.zeros(1)\nx.index(2)", []),
        ("from torch_npu.profiler import Watch, other", [(1, "unsupported", "torch_npu.profiler.Watch")]),
        ("from torch_npu.profiler import Watch\nWatch()", [(2, "unsupported", "torch_npu.profiler.Watch")]),
        ("try:\n    from torch_npu.profiler import Watch\nexcept ImportError: ...", []),
        ("import torch_npu.profiler.Watch, torch.strange", [(1, "unsupported", "torch_npu.profiler.Watch")]),
        ("import torch_npu\nimport torch_npu.profiler._Watch", []),
        ("from .torch_npu.profiler import Watch\nfrom torch_npu.profiler import *", []),
        (
            "import torch\ntorch.compile(m)\n@torch.compile\ndef f(): ...",
            [(2, "unknown", "torch.compile"), (3, "unknown", "torch.compile")],
        ),
        ("import torch\ntorch.compile(m, backend='inductor')", [(2, "unknown", "torch.compile")]),
        ("import torch\ntorch.compile(m, backend=chosen())", []),
        ("import torch\n@torch.refused\ndef f(): ...", [(2, "unsupported", "torch.refused")]),
        ("from torch import nn\nclass N(nn.Refused): ...", [(2, "unsupported", "torch.nn.Refused")]),
        ("from torch import nn\nisinstance(m, nn.Refused)", []),
        ("from torch import nn\ntype(m) in (nn.Refused, nn.Linear) or type(m) is nn.Refused", []),
        ("import torch\nx.dtype == torch.refused", [(2, "unsupported", "torch.refused")]),
        ("from torch import nn\nf(nn.Refused) == 1", [(2, "unsupported", "torch.nn.Refused")]),
        ("from torch import nn\ndef f(m: nn.Refused, n: nn.Later): ...", []),
        ("from torch import nn\nisinstance(m, nn.Later)", [(2, "unsupported", "torch.nn.Later")]),
        ("from torch import nn\nif hasattr(nn, 'Later') and isinstance(m, nn.Later): ...", []),
        ("from torch import nn\ntype(m) is nn.Later", [(2, "unsupported", "torch.nn.Later")]),
        ("from torch import nn\nnn.Linear(1, 1).slow()", [(2, "fallback", "torch.nn.Module.slow")]),
        ("from torch import nn\nclass N(nn.Module):\n    def slow(self): ...\nN().slow()", []),
        ("import torch\ntorch.cuda.slow()", []),
        ("import torch\ntorch.xpu.strange()\ntorch.serialization.strange()", []),
        ("import torch\ntorch._private(x)", []),
        ("import torch\ntorch.slow(x); torch.slow(y)", [(2, "fallback", "torch.slow")] * 2),
    ],
)
def test_what_is_reported(parse, text: str, expected: list[tuple[int, str, str]]) -> None:
    assert found(parse(text)) == expected


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("torch.from_numpy(a)", 0),
        ("torch.zeros(2)", 0),
        ("torch.as_tensor(np.zeros(2))", 0),
        ("torch.zeros(2).npu()", 1),
        ("torch.as_tensor(np.zeros(2)).npu()", 1),
    ],
)
@pytest.mark.parametrize("code", ["x = {}\nx.share_memory_()\n", "{}.share_memory_()\n"])
def test_the_memory_of_the_cpu_may_be_shared(parse, made: str, count: int, code: str) -> None:
    assert len(found(parse(f"import numpy as np\nimport torch\n{code.format(made)}"))) == count


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("nn.Linear(2, 2).share_memory()\n", 0),
        ("a = nn.Linear(2, 2)\na.share_memory()\n", 0),
        ("class A(nn.Module): ...\na = A()\na.share_memory()\nb = A().cuda()\n", 0),
        ("a = nn.Linear(2, 2).cuda()\na.share_memory()\n", 1),
        ("a = nn.Linear(2, 2)\na.to('npu')\na.share_memory()\n", 1),
        ("def f(a: nn.Linear):\n    a.share_memory()\n", 1),
        ("class A(nn.Module): ...\ndef f(a: A):\n    a.share_memory()\n", 1),
    ],
)
def test_a_module_that_nothing_moves_may_be_shared(parse, code: str, count: int) -> None:
    assert len(found(parse(f"import torch\nfrom torch import nn\n{code}"))) == count


def test_each_kind_of_finding_has_a_verdict() -> None:
    assert set(torch_apis._KINDS.values()) == set(FindingKind) - {FindingKind.REVIEW}


def test_messages_are_sentences() -> None:
    judged = ApiVerdict("x", VerdictKind.FALLBACK, "aten::op is not registered", "move it out of the loop.")
    assert torch_apis.message(judged) == "aten::op is not registered. Move it out of the loop."
    assert torch_apis.message(ApiVerdict("x", VerdictKind.UNKNOWN, "nothing is known")) == "Nothing is known."


def test_what_is_registered_and_not_documented_is_a_note(monkeypatch: pytest.MonkeyPatch, parse) -> None:
    def judge(api: str, version: str) -> ApiVerdict:
        return ApiVerdict(api, VerdictKind.NATIVE, "registered", unverified=api == "torch.unverified")

    monkeypatch.setattr(torch_apis, "verdict", judge)
    torch_apis._is_reported.cache_clear()
    findings = torch_api_findings(parse("import torch\ntorch.unverified()\ntorch.good()\n"), "2.1.0")
    assert [(each.span.start_line, each.severity) for each in findings] == [(2, Severity.NOTE)]
    assert "lists it as not supported" in findings[0].message
