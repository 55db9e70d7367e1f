"""Every kind of affinity rewrite: its examples, before and after, and what both compute."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import CodeType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu2npu
from gpu2npu.codemods import CodemodChoice, CodemodError, plan_codemods
from gpu2npu.codemods.affinity.catalogue import KINDS, chosen
from gpu2npu.engine import ProjectContext
from gpu2npu.shapes.kind import AffinityKind, FusedCase
from tests.codemods.affinity import flash_attn_reference, lamb_reference
from tests.codemods.edited import after_edits

SITE = Path(gpu2npu.__file__).parent / "emulator" / "site"
if str(SITE) not in sys.path:
    sys.path.insert(0, str(SITE))

import torch_npu  # noqa: E402

pytestmark = pytest.mark.torch

VERSION = "2.7.1"
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
MOST = 300 if os.environ.get("GPU2NPU_TEST_AFFINITY") else 6
ALL = [
    pytest.param(kind, each, id=f"{kind.id}-{at}") for kind in KINDS.values() for at, each in enumerate(kind.examples)
]
EXECUTED = [
    pytest.param(kind, each, id=f"{kind.id}-{at}")
    for kind in KINDS.values()
    for at, each in enumerate(kind.examples)
    if each.shapes
]


def rewritten(source: str, kind: str) -> str:
    choice = CodemodChoice(skipped=frozenset({"data_parallel"}), options={"affinity": (kind,)})
    plan = plan_codemods({"model.py": source.encode()}, ProjectContext(version=VERSION), choice)
    assert not plan.failures
    return after_edits(source, plan.rewrites["model.py"].edits) if "model.py" in plan.rewrites else ""


@pytest.mark.parametrize(("kind", "example"), ALL)
def test_examples(kind: AffinityKind, example: FusedCase) -> None:
    assert rewritten(example.source, kind.id) == example.result


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_shows_what_it_does_and_what_it_leaves(kind: AffinityKind) -> None:
    assert any(each.after and each.shapes for each in kind.examples)
    assert any(not each.after for each in kind.examples)
    assert set(kind.rounding) == set(DTYPES)
    assert kind.statement.endswith(".")


@pytest.mark.parametrize(
    "source",
    [
        "{def}    return F.silu(a) * b  # gpu2npu: skip=swiglu",
        "{def}    # gpu2npu: skip\n    return F.silu(a) * b",
        "@torch.jit.script\n{def}    return F.silu(a) * b",
        "@jit_fuser\n{def}    return F.silu(a) * b",
        "{def}    log(a)\n    return F.silu(a) * b",
        "{def}    a = a + 1\n    return F.silu(a) * b",
        "{def}    if c:\n        a = b\n    return F.silu(a) * b",
        "{def}    for _ in range(2):\n        b = F.silu(a) * b\n    return b",
        "{def}    b.mul_(2)\n    return F.silu(a) * b",
        "{def}    return lambda: F.silu(a) * b",
    ],
)
def test_surrounding_code_that_keeps_it(source: str) -> None:
    definition = "def f(x, c):\n    a, b = x.chunk(2, dim=-1)\n"
    assert (
        rewritten(f"import torch\nimport torch.nn.functional as F\n{source.replace('{def}', definition)}\n", "swiglu")
        == ""
    )


@pytest.mark.parametrize("folder", ["", "pkg/", "pkg/models/"])
def test_the_module_is_in_the_package_or_beside_the_program(folder: str) -> None:
    example = KINDS["rms-norm"].examples[0]
    sources = {f"{folder}model.py": example.source.encode()}
    sources |= {"pkg/__init__.py": b"", "pkg/models/__init__.py": b""} if folder else {}
    plan = plan_codemods(sources, ProjectContext(version=VERSION), CodemodChoice(options={"affinity": ("rms-norm",)}))
    imported = {"": "import", "pkg/": "from . import", "pkg/models/": "from .. import"}[folder]
    text = after_edits(example.source, plan.rewrites[f"{folder}model.py"].edits)
    assert f"\n{imported} ascend_affinity\n" in text
    place = "pkg/ascend_affinity" if folder else "ascend_affinity"
    assert set(plan.new_files) == {f"{place}/__init__.py", f"{place}/flash_attention.py"}


@pytest.mark.parametrize(
    ("head", "written", "places"),
    [
        ("from pkg.data import load\n", "from pkg import ascend_affinity", {"src/pkg"}),
        ("import pkg.data\n", "from pkg import ascend_affinity", {"src/pkg"}),
        ("def load():\n    import pkg.data\n", "import ascend_affinity", {"src/pkg", "", "tools"}),
        ("import sys\nsys.path.append('src')\nimport pkg.data\n", "import ascend_affinity", {"src/pkg", "", "tools"}),
    ],
)
def test_the_module_is_once_in_a_package_that_a_program_imports(head: str, written: str, places: set[str]) -> None:
    silu = "import torch\ndef f(x):\n    return x * torch.sigmoid(1.702 * x)\n"
    sources = {"src/pkg/__init__.py": "", "src/pkg/data.py": silu, "tools/train.py": f"{head}{silu}f(1)\n"}
    files = {path: text.encode() for path, text in sources.items()}
    plan = plan_codemods(files, ProjectContext(version=VERSION), CodemodChoice(options={"affinity": ("quick-gelu",)}))
    text = after_edits(sources["tools/train.py"], plan.rewrites["tools/train.py"].edits)
    assert f"\n{written}\n" in f"\n{text}" and "return ascend_affinity.quick_gelu(x)" in text
    assert {path.partition("ascend_affinity")[0].rstrip("/") for path in plan.new_files} == places


def test_every_import_of_flash_attention_changes() -> None:
    one = "def f{}(q):\n    from {} import flash_attn_func\n    return flash_attn_func(q, q, q)\n"
    before = "import torch\n" + one.format(1, "flash_attn") + one.format(2, "flash_attn")
    module = "ascend_affinity.flash_attention"
    after = "import torch\n" + one.format(1, module) + one.format(2, module)
    assert rewritten(before, "flash-attention") == after


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        ("torch.autograd.grad(y, x, create_graph=True)", {"flash-attention", "spelled-silu"}),
        ("torch.autograd.grad(y, x, None, True, True)", {"flash-attention", "spelled-silu"}),
        ("y.backward(None, True, True)", {"flash-attention", "spelled-silu"}),
        ("torch.autograd.backward(y, None, None, True)", {"flash-attention", "spelled-silu"}),
        ("torch.autograd.backward(y, None, True)", {"flash-attention", "spelled-silu", "swiglu"}),
        ("y.backward(None, True, False)", {"flash-attention", "spelled-silu", "swiglu"}),
        ("Gate.backward(ctx, x, y)", {"flash-attention", "spelled-silu", "swiglu"}),
        ("penalty(y, **{'create_graph': True})", {"flash-attention", "spelled-silu"}),
        ("torch.autograd.functional.hessian(y, x)", {"flash-attention", "spelled-silu"}),
        ("torch.autograd.gradgradcheck(y, x)", {"flash-attention", "spelled-silu"}),
        ("torch.func.functional_call(y, {}, (x,))", {"flash-attention", "spelled-silu", "swiglu"}),
        ("torch.autograd.grad(y, x, create_graph=False)", {"flash-attention", "spelled-silu", "swiglu"}),
    ],
)
def test_code_of_which_gradients_are_differentiated_is_left(other: str, kinds: set[str]) -> None:
    sources = {f"{name}.py": KINDS[name].examples[0].source.encode() for name in ("swiglu", "spelled-silu")}
    sources["flash.py"] = KINDS["flash-attention"].examples[0].source.encode()
    sources["train.py"] = f"import functorch\nimport torch\n\ndef g(x, y):\n    return {other}\n".encode()
    choice = CodemodChoice(
        skipped=frozenset({"data_parallel"}), options={"affinity": ("flash-attention", "spelled-silu", "swiglu")}
    )
    plan = plan_codemods(sources, ProjectContext(version=VERSION), choice)
    assert {edit.rule for rewrite in plan.rewrites.values() for edit in rewrite.edits} == kinds


@pytest.mark.parametrize(
    ("call", "is_left"),
    [
        ("step(y)", False),
        ("step(y, create_graph=False)", False),
        ("step(y, False)", False),
        ("step(y, **{'other': True})", False),
        ("step(y, create_graph=second)", True),
        ("step(y, True)", True),
        ("step(*y)", True),
        ("step(y, **options)", True),
        ("fast = functools.partial(step, y, True)", True),
        ("from train import step as run\nrun(y, True)", True),
    ],
)
def test_a_function_that_may_be_called_for_graphs_of_gradients(call: str, is_left: bool) -> None:
    train = "import torch\n\ndef step(y, create_graph=False):\n    y.backward(create_graph=create_graph)\n\n"
    files = {"train.py": train, "run.py": call} if call.startswith("from train") else {"train.py": f"{train}{call}\n"}
    sources = {"swiglu.py": KINDS["swiglu"].examples[0].source.encode()}
    sources |= {path: text.encode() for path, text in files.items()}
    plan = plan_codemods(sources, ProjectContext(version=VERSION), CodemodChoice(options={"affinity": ("swiglu",)}))
    assert ("swiglu.py" not in plan.rewrites) is is_left


def test_a_release_without_the_operator_is_left() -> None:
    source = KINDS["swiglu"].examples[0].source.encode()
    choice = CodemodChoice(options={"affinity": ("swiglu",)})
    assert plan_codemods({"model.py": source}, ProjectContext(version="2.1.0.post0"), choice).rewrites == {}


def test_a_function_that_the_release_lacks_is_one_of_the_project() -> None:
    source = KINDS["rms-norm-call"].examples[0].source.encode()
    choice = CodemodChoice(options={"affinity": ("rms-norm-call",)})
    assert plan_codemods({"model.py": source}, ProjectContext(version="2.3.1"), choice).rewrites == {}


@pytest.mark.parametrize(
    ("head", "use"),
    [
        ('"""A model."""\nimport os\nimport torch\n', "f(torch.ones(2))\n"),
        ("import torch\nimport torch.nn as nn\n", "nn.RMSNorm(8)\n"),
    ],
)
def test_the_module_is_imported_before_it_is_used(head: str, use: str) -> None:
    function = "\ndef f(x):\n    return x * torch.sigmoid(1.702 * x)\n\n"
    after = rewritten(f"{head}{function}{use}import math\n", "quick-gelu")
    assert after.startswith(f"{head}import ascend_affinity\n{function.partition('return')[0]}")
    assert after.endswith(f"{use}import math\n")
    after = rewritten(f"{head}torch.nn.RMSNorm(8)\nimport math\n", "rms-norm-module")
    assert after == f"{head}import ascend_affinity\nascend_affinity.RMSNorm(8)\nimport math\n"


def test_names_of_kinds() -> None:
    assert chosen(["safe"]) == tuple(kind.id for kind in KINDS.values() if kind.safe)
    assert chosen(["geglu", "rms-norm"]) == ("rms-norm", "geglu")
    with pytest.raises(CodemodError, match=r"--affinity: there is no kind 'swigl'; did you mean 'swiglu'\?"):
        chosen(["swigl"])


@pytest.fixture(scope="module", autouse=True)
def module_of_operators() -> Iterator[None]:
    """The modules that the old and the new code import."""
    templates = str(files("gpu2npu.codemods") / "templates")
    sys.path.insert(0, templates)
    added = flash_attn_reference.modules() | lamb_reference.modules()
    sys.modules.update(added)
    yield
    sys.path.remove(templates)
    for name in (*added, *[each for each in sys.modules if each.partition(".")[0] == "ascend_affinity"]):
        del sys.modules[name]


@cache
def compiled(source: str) -> CodeType:
    return compile(source, "model.py", "exec")


def computed(source: str, tensors: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """The results of `f` for some tensors on a device, and their gradients, on the CPU."""
    names: dict[str, object] = {}
    exec(compiled(source), names)
    given = [each.detach().to(device).requires_grad_() for each in tensors]
    found = names["f"](*given)  # type: ignore[operator]
    outputs = list(found) if isinstance(found, tuple) else [found]
    total = sum(
        (each.float() * torch.linspace(-1, 2, each.numel()).reshape(each.shape).to(device)).sum() for each in outputs
    )
    assert isinstance(total, torch.Tensor)
    total.backward()
    gradients = [each.grad for each in given]
    assert all(each is not None for each in gradients)
    return [each.detach().cpu() for each in (*outputs, *gradients) if each is not None]


def assert_near(found: list[torch.Tensor], expected: list[torch.Tensor], rounding: float) -> None:
    """Outputs and gradients, relative to the largest of all: a gradient may be a difference of terms of that size."""
    assert len(found) == len(expected)
    scale = max(1.0, *(float(other.abs().max()) for other in expected))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert float((one.float() - other.float()).abs().max()) <= rounding * scale


def test_a_chip_without_the_operators_computes_what_the_code_did(monkeypatch: pytest.MonkeyPatch) -> None:
    example = KINDS["swiglu"].examples[0]
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    module = vars(importlib.import_module("ascend_affinity"))
    module["_is_known"].cache_clear()
    monkeypatch.setattr(torch.npu, "get_device_name", lambda device: "Ascend910A")  # type: ignore[attr-defined]
    monkeypatch.setattr(torch_npu, "npu_swiglu", None)
    found = computed(example.result, [x], "npu")
    module["_is_known"].cache_clear()
    assert_near(found, computed(example.source, [x], "cpu"), 1e-6)


def test_a_norm_is_traced_symbolically() -> None:
    module = importlib.import_module("ascend_affinity")
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    own = module.RMSNorm(8, eps=1e-6)
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(own))
    assert torch.equal(traced(x), torch.nn.functional.rms_norm(x, (8,), own.weight, 1e-6))


def test_a_row_that_is_not_picked_has_no_gradient() -> None:
    loss = importlib.import_module("ascend_affinity").masked_loss
    x = torch.tensor([[1.0, 2.0], [torch.inf, 0.0]], device="npu", requires_grad=True)
    classes, mask = torch.zeros(2, dtype=torch.long, device="npu"), torch.tensor([True, False], device="npu")
    loss(torch.nn.functional.cross_entropy, x, classes, mask).backward()
    assert x.grad is not None and x.grad[1].tolist() == [0, 0] and x.grad[0].isfinite().all()


def test_as_many_products_as_the_shorter_list_has() -> None:
    module = importlib.import_module("ascend_affinity")
    x, y = torch.ones(3, 2, 2), torch.ones(2, 2, 2)
    assert torch.equal(module.stacked_matmul(x, y), torch.full((2, 2, 2), 2.0))


def test_more_rows_than_the_operator_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ascend_affinity")
    monkeypatch.setattr(module, "_LOSSES", 3)
    monkeypatch.setattr(torch_npu, "npu_cross_entropy_loss", None)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 4, 2, 2])
    expected = torch.nn.functional.cross_entropy(x, labels)
    assert_near([module.cross_entropy(x.to("npu"), labels.to("npu")).cpu()], [expected], 1e-6)
    with pytest.raises(TypeError):
        module.cross_entropy(x[:3].to("npu"), labels[:3].to("npu"))


SIZES = st.fixed_dictionaries({name: st.integers(1, 5) for name in "bhs"} | {"d": st.sampled_from((4, 7, 16))})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kind", "example"), EXECUTED)
@settings(max_examples=MOST, deadline=None, derandomize=MOST < 100)
@given(sizes=SIZES, seed=st.integers(0, 2**16), mixed=st.booleans())
def test_both_compute_the_same(
    kind: AffinityKind, example: FusedCase, dtype: str, sizes: dict[str, int], seed: int, mixed: bool
) -> None:
    """Outputs and gradients: after on the emulated NPU, before on the CPU; dtypes may differ among the arguments."""
    make = torch.Generator().manual_seed(seed)
    tensors = []
    for at, shape in enumerate(example.shapes):
        size = [sizes.get(each) or int(each) for each in shape.split()]
        wide = torch.float32 if mixed and at and example.mixes else DTYPES[dtype]
        tensors.append(torch.randn(size, generator=make).to(wide))
    before = computed(example.source, tensors, "cpu")
    assert_near(computed(example.result, tensors, "npu"), before, kind.rounding[dtype])
    assert_near(computed(example.result, tensors, "cpu"), before, kind.rounding[dtype])


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (
            "llama",
            {
                "attention-call",
                "confusion-transpose",
                "cross-entropy",
                "fused-optimizer",
                "rms-norm",
                "rotary-embedding",
                "swiglu",
            },
        ),
        ("vit", {"attention", "confusion-transpose", "cross-entropy", "fused-optimizer", "swiglu"}),
        ("detector", {"fused-optimizer", "spelled-silu", "spelled-mish"}),
    ],
)
def test_models_as_users_write_them(model: str, kinds: set[str]) -> None:
    source = (Path(gpu2npu.__file__).parents[1] / "fixtures" / "affinity" / f"{model}.py").read_bytes()
    choice = CodemodChoice(skipped=frozenset({"data_parallel"}), options={"affinity": tuple(KINDS)})
    rewrite = plan_codemods({"model.py": source}, ProjectContext(version=VERSION), choice).rewrites["model.py"]
    assert {edit.rule for edit in rewrite.edits} == kinds
