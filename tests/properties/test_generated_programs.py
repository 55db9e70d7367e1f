"""Whatever program comes in, the result is one too, a second migration changes nothing, and every change is listed."""

from __future__ import annotations

import ast
import csv
import tempfile
import textwrap
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from pathlib import Path

from click.testing import CliRunner
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from gpu2npu.cli.main import cli
from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.records import Change, MigratedFile
from gpu2npu.rulebook import load_rulebook

RULEBOOK = load_rulebook()

# How a file gets at torch.cuda, and how it spells torch and torch.cuda then.
IMPORTS = [
    ("import torch", "torch", "torch.cuda"),
    ("import torch as th", "th", "th.cuda"),
    ("import torch, os", "torch", "torch.cuda"),
    ("import os; import torch; import sys", "torch", "torch.cuda"),
    ("import torch\nfrom torch import cuda", "torch", "cuda"),
    ("import torch\nimport torch.cuda as tc", "torch", "tc"),
    ("import torch\nfrom torch import (\n    cuda as C,\n    nn,\n)", "torch", "C"),
    ("import torch\ncu = torch.cuda", "torch", "cu"),
    ("try:\n    import torch\nexcept ImportError:\n    torch = None", "torch", "torch.cuda"),
    ("if True: import torch", "torch", "torch.cuda"),
    ("from torch.cuda import Stream, amp, synchronize as sync\nimport torch", "torch", "torch.cuda"),
    ("from torch import *\nimport torch", "torch", "torch.cuda"),
]

EXPRESSIONS = [
    "{c}.is_available()", "{c}.device_count()", "{c}.current_device()", "{c}.Stream()", "{c}.FloatTensor(2, 3)",
    "{c}.get_device_capability(0)[0] >= 7", "{c}.amp.GradScaler()", "{c}.no_such_name(1)", "{c}", "{c} . Event ( )",
    "{t}.device({q}cuda{q})", "{t}.device({q}cuda:0{q} if {c}.is_available() else {q}cpu{q})", "{t}.version.cuda",
    "{t}.zeros(2, device={q}cuda{q})", "{t}.zeros(2).cuda()", "x.cuda(0, non_blocking=True)", "x.cuda", "x.is_cuda",
    "[y.cuda() for y in xs if y.is_cuda]", "{{k: v.cuda() for k, v in xs}}", "(lambda v: v.cuda())(x)",
    "f{q}cuda:{{rank}}{q}", "{q}cuda:%d{q} % rank", "{q}cuda:{{}}{q}.format(rank)", "{q}cuda:{q} + str(rank)",
    "x.device.type == {q}cuda{q}", "x.type() == {q}torch.cuda.HalfTensor{q}", "device in ({q}cuda{q}, {q}cpu{q})",
    "{q}trained on cuda with nccl{q}", "{q}csrc/cuda/nms.cu{q}", "{q}nccl{q} if distributed else {q}gloo{q}",
    "{q}a{q} {q}cuda{q}", "f{q}{{x.cuda()}} and {{ {c}.device_count() }}{q}", "getattr({t}, {q}cuda{q})",
    "hasattr({t}.cuda, {q}nvtx{q})", "os.environ.get({q}CUDA_VISIBLE_DEVICES{q}, {q}{q})", "args.cuda", "use_cuda",
    "(\n    x\n    .cuda()  # over there\n    .half()\n)", "x \\\n    .cuda()", "Kit().cuda()", "Net().cuda()",
    "(x).cuda()", "{t}.autocast({q}cuda{q}, dtype={t}.float16)", "{t}.load(path, map_location={q}cuda:1{q})",
    "self.cuda()", "{t}.nn.DataParallel(x)", "{t}.profiler.ProfilerActivity.CUDA", "{t}.backends.cudnn.benchmark",
    "cuda if (cuda := {c}.is_available()) else None", "not x.is_cuda and -x.cuda()[0] ** 2",
]  # fmt: skip

STATEMENTS = [
    "y = {e}", "y, z = {e}, {e}", "y: object = {e}", "y = z = {e}", "print({e})", "assert {e}, {e}", "del x", "pass",
    "x = {e}; y = {e}", "x = {e};", "device = {q}cuda{q}", "name = {q}cuda{q}", "backend = {q}nccl{q}",
    "dist.init_process_group({q}nccl{q}, rank=rank)", "dist.init_process_group(backend={q}nccl{q}, init_method=None)",
    "parser.add_argument({q}--device{q}, default={q}cuda{q}, choices=[{q}cuda{q}, {q}cpu{q}], help={q}cuda or cpu{q})",
    "parser.add_argument({q}--no-cuda{q}, action={q}store_true{q})", "{t}.backends.cuda.matmul.allow_tf32 = True",
    "{t}.backends.cudnn.allow_tf32 = False", "os.environ[{q}NCCL_DEBUG{q}] = {q}INFO{q}", "global cuda_count",
    "os.environ[{q}CUDA_VISIBLE_DEVICES{q}] = {q}0,1{q}", "config = {{{q}device{q}: {q}cuda{q}, {q}cuda{q}: {e}}}",
    "{q}{q}{q}Moves to cuda.{q}{q}{q}", "# x.cuda() over nccl", "import torch_npu", "x += {e}", "raise ValueError({e})",
    "subprocess.run([{q}nvidia-smi{q}])", "import apex", "from apex import amp", "import flash_attn",
    "import torch.cuda", "assert isinstance(x, {c}.FloatTensor)", "import torch.cuda.nvtx as nvtx", "cuda = 1",
    "import pynvml; pynvml.nvmlInit()", "import amp_C", "from apex.optimizers import FusedAdam, FusedSGD as SGD",
    "import amp_C, sys", "try:\n    import amp_C\nexcept ImportError:\n    amp_C = None",
    "import apex, torch.cuda.amp as amp",
    "p = {t}.profiler.profile(activities=[{t}.profiler.ProfilerActivity.CUDA], experimental_config=None)",
    "with {t}.profiler.profile(\n    activities=a,  # all\n    experimental_config=b,\n    with_stack=1,\n) as p: p",
    "p = {t}.profiler.profile(\n    experimental_config=b\n); p.step()",
    "from torch.profiler import ProfilerActivity as PA", "{c}.nvtx.range_push({q}a{q}); {c}.nvtx.range_pop()",
    "with {t}.backends.cuda.sdp_kernel(enable_flash=True): pass", "trainer = Trainer(accelerator={q}gpu{q}, devices=2)",
    "x = x.to(memory_format={t}.channels_last)", "x = {t}.jit.script(x)",
    "m = load(name, device_map={q}cuda{q}, attn_implementation={q}flash_attention_2{q})", "from torch.cuda import *",
    "from torch.cuda.amp import GradScaler, autocast; scaler = GradScaler()",
    "{t}.set_default_tensor_type({c}.HalfTensor)", "{t}.set_default_tensor_type({q}torch.cuda.FloatTensor{q})",
    "mesh = dist.init_device_mesh({q}cuda{q}, (2,))", "dist.init_process_group({q}cpu:gloo,cuda:nccl{q})",
    "print({c}.nccl.version())", "@{t}.cuda.amp.custom_fwd\ndef fwd(x): pass", "{t}.ops.load_library({q}a.so{q})",
    "from torch.utils.cpp_extension import CUDAExtension, load",
]  # fmt: skip

# A compound statement: what is before its block, and what may follow the block.
BLOCKS = [
    ("def move(x, device={q}cuda{q}):", ""), ("async def move(*, dev={q}cuda:0{q}, **cuda):", ""), ("for x in xs:", ""),
    ("class Net({t}.nn.Module):", ""), ("class Kit:\n    def cuda(self): return self\nclass Both(Kit):", ""),
    ("with {c}.stream(s), {c}.device(0):", ""), ("if {e}:", "else: y = x.cuda()"), ("while {e}:", ""),
    ("try:", "except {c}.OutOfMemoryError as error: pass"), ("@{t}.no_grad()\ndef cuda(self, x):", ""),
    ("@{c}.amp.autocast()\ndef forward(self, x: {t}.Tensor) -> {q}{c}.FloatTensor{q}:", ""), ("if x: pass\nelse:", ""),
    ("match device:\n    case {q}cuda{q}: x = x.cuda()\n    case _ if x.is_cuda: pass\nif device:", ""),
    ("def inner():\n    import torch\n    return torch.cuda.is_available()\nif inner():", ""),
]  # fmt: skip

COMMENTS = ["", "", "", "  # to cuda", "  # type: ignore", "  # gpu2npu: skip", "\n", "\n\n# nccl, cuda"]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program as people write them: imports with aliases, nested blocks, strings in many roles, odd layout."""
    imports, torch, cuda = draw(st.sampled_from(IMPORTS))
    quote = st.sampled_from(["'", '"'])

    def fill(template: str) -> str:
        expression = ""
        if "{e}" in template:
            expression = draw(st.sampled_from(EXPRESSIONS)).format(t=torch, c=cuda, q=draw(quote))
        return template.format(t=torch, c=cuda, q=draw(quote), e=expression)

    def block(depth: int) -> str:
        lines = []
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.integers(0, 3)) if depth else 1
            if kind == 0:
                head, tail = draw(st.sampled_from(BLOCKS))
                inner = block(depth - 1) + "\npass"
                lines.append("\n".join(filter(None, [fill(head), textwrap.indent(inner, unit), fill(tail)])))
            else:
                lines.append(fill(draw(st.sampled_from(STATEMENTS))) + draw(st.sampled_from(COMMENTS)))
        return "\n".join(lines)

    unit = draw(st.sampled_from(["    ", "  ", "\t"]))
    head = draw(
        st.sampled_from(
            ["", "", "# -*- coding: utf-8 -*-\n", '"""About cuda."""\nfrom __future__ import annotations\n']
        )
    )
    text = f"{head}{imports}\nimport os, subprocess\nimport torch.distributed as dist\n{block(2)}\n"
    return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"]))) if draw(st.booleans()) else text[:-1]


def is_program(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(programs().filter(is_program), st.sampled_from(["2.1.0", "2.7.0"]))
@example("import torch\np = torch.profiler.profile(\n    experimental_config=b\n); p.step()", "2.1.0")
@example("from torch import (\n    cuda as C,\n    nn,\n)\ny = C.get_device_capability(0)[0] >= 7", "2.1.0")
@example("import torch\nif x.is_cuda: pass\nx = torch.profiler.ProfilerActivity.CUDA\n", "2.1.0")
def test_any_program(
    stays_a_program: Callable[[str, MigratedFile], str],
    only_listed_text_changed: Callable[[str, str, Iterable[Change]], None],
    text: str,
    version: str,
) -> None:
    context = ProjectContext(version=version)
    result = migrate_source(text.encode(), "train.py", RULEBOOK, context)
    after = stays_a_program(text, result)
    event("changed" if result.changes else "unchanged")
    only_listed_text_changed(text, after, result.changes)
    again = migrate_source(after.encode(), "train.py", RULEBOOK, context)
    assert (again.failure, again.content, again.changes) == (None, None, ())


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(st.lists(programs().filter(is_program), min_size=6, max_size=6))
def test_the_change_list_of_a_tree_names_every_touched_line(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "project"
        source.mkdir()
        for number, text in enumerate(texts):
            (source / f"m{number}.py").write_bytes(text.encode())
        migrated = CliRunner().invoke(cli, ["-i", str(source), "-o", folder, "-v", "2.1.0", "-q", "-j1"])
        assert migrated.exit_code == 0, migrated.output
        with (Path(folder) / "project_msft" / "change_list.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for number in range(len(texts)):
            name = f"m{number}.py"
            after = (Path(folder) / "project_msft" / name).read_bytes().decode()
            own_rows = [row for row in rows if row["File"] == name]
            listed = {line for row in own_rows for line in range(int(row["Start Line"]), int(row["End Line"]) + 1)}
            inserted = {int(row["End Line"]) for row in own_rows if row["Operation Type"] == "INSERT"}
            for touched in touched_lines(texts[number], after):
                assert touched & (listed | {line + 1 for line in inserted}), (touched, own_rows)
            for row in own_rows:
                assert row["After"] in after


def touched_lines(before: str, after: str) -> list[set[int]]:
    """The lines that differ, one set for each stretch of them; an insertion counts for the lines on both its sides."""
    old, new = before.splitlines(), after.splitlines()
    touched = []
    for tag, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "replace" and end - start == last - first:
            touched += [{line} for line in range(start + 1, end + 1)]
        elif tag != "equal":
            touched.append(set(range(start, end + 2)))
    return touched
