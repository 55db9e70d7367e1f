"""Tests that what is not edited stays to the byte, in every encoding and layout, and that failures give a reason."""

from __future__ import annotations

import ast
import codecs
import gc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu2npu.engine import ProjectContext, migrate_source, unreadable
from gpu2npu.python.tree.file import forget_files
from gpu2npu.records import MigratedFile, Operation
from gpu2npu.rulebook import load_rulebook

RULEBOOK = load_rulebook()


def run(source: bytes, path: str = "a.py") -> MigratedFile:
    return migrate_source(source, path, RULEBOOK, ProjectContext())


BYTES = {
    "CRLF": (b"import torch\r\nx.cuda()\r\n", b"import torch\r\nimport torch_npu\r\nx.npu()\r\n"),
    "old Mac line ends": (b"import torch\rx.cuda()\r", b"import torch\rimport torch_npu\rx.npu()\r"),
    "mixed line ends": (b"a = 1\r\nx.cuda()\nb = 2\r\n", b"a = 1\r\nx.npu()\nb = 2\r\n"),
    "tabs": (
        b"def f():\n\timport torch\n\tif x:\n\t\tx.cuda()\n",
        b"def f():\n\timport torch\n\timport torch_npu\n\tif x:\n\t\tx.npu()\n",
    ),
    "byte order mark": (codecs.BOM_UTF8 + b"x.cuda()\n", codecs.BOM_UTF8 + b"x.npu()\n"),
    "no final newline": (b"x.cuda()", b"x.npu()"),
    "an import without final newline": (b"if x.cuda(): import torch", b"if x.npu(): import torch; import torch_npu"),
    "import as the last line": (b"x.cuda()\nimport torch", b"x.npu()\nimport torch\nimport torch_npu"),
    "gbk": (
        "# -*- coding: gbk -*-\ns = '显卡'  # 设备\nx.cuda()\n".encode("gbk"),
        "# -*- coding: gbk -*-\ns = '显卡'  # 设备\nx.npu()\n".encode("gbk"),
    ),
    "latin-1": (b"# coding: latin-1\ns = '\xe9'\nx.cuda()\n", b"# coding: latin-1\ns = '\xe9'\nx.npu()\n"),
    "form feed and trailing blanks": (b"x.cuda()  \n\x0c\n\n  \ny = 1 \n", b"x.npu()  \n\x0c\n\n  \ny = 1 \n"),
    "backslashes": (b"x = y \\\n  .cuda( )  # go\n", b"x = y \\\n  .npu( )  # go\n"),
    "odd spaces": (b"torch . cuda . is_available ( )\n", b"torch . npu . is_available ( )\n"),
    "semicolons": (b"x.cuda() ; y.cuda();\n", b"x.npu() ; y.npu();\n"),
    "string prefixes": (b"x.to(u\"cuda\"); y.to(R'cuda:0')\n", b"x.to(u\"npu\"); y.to(R'npu:0')\n"),
    "triple quotes": (b"x.to('''cuda''')\n", b"x.to('''npu''')\n"),
}


@pytest.mark.parametrize(("before", "after"), BYTES.values(), ids=BYTES)
def test_all_other_bytes_stay(before: bytes, after: bytes) -> None:
    result = run(before)
    assert (result.failure, result.content) == (None, after)
    assert run(after).content is None


PLUGIN = {
    "after the docstring and __future__": (
        '"""Doc."""\nfrom __future__ import annotations\n\nimport torch  # here\n\nx.cuda()\n',
        '"""Doc."""\nfrom __future__ import annotations\n\nimport torch  # here\nimport torch_npu\n\nx.npu()\n',
    ),
    "already there": ("import torch\nimport torch_npu\nx.cuda()\n", "import torch\nimport torch_npu\nx.npu()\n"),
    "part of it already there": (
        "import torch\nfrom torch_npu.contrib import transfer_to_npu\nx.cuda()\n",
        "import torch\nfrom torch_npu.contrib import transfer_to_npu\nx.npu()\n",
    ),
    "below import torch, not below what is first": (
        "from torch import nn\nimport torch\nx.cuda()\n",
        "from torch import nn\nimport torch\nimport torch_npu\nx.npu()\n",
    ),
    "below import torch, not below the import of a part": (
        "import torch.nn as nn\nimport torch\nx.cuda()\n",
        "import torch.nn as nn\nimport torch\nimport torch_npu\nx.npu()\n",
    ),
    "above what needs it": (
        "from torch.cuda import Stream\nimport torch\nx.cuda()\n",
        "import torch_npu\nfrom torch.npu import Stream\nimport torch\nx.npu()\n",
    ),
    "above what needs it in a body on one line": (
        "try: from torch.cuda import init\nexcept ImportError: pass\nx.cuda()\n",
        "try: import torch_npu; from torch.npu import init\nexcept ImportError: pass\nx.npu()\n",
    ),
    "above what needs it and is followed on its line": (
        "from torch.cuda import init; x.cuda()\n",
        "import torch_npu\nfrom torch.npu import init; x.npu()\n",
    ),
    "above the line of what needs it": (
        "import os; from torch.cuda import init\nx.cuda()\n",
        "import torch_npu\nimport os; from torch.npu import init\nx.npu()\n",
    ),
    "inside try": (
        "try:\n    import torch\nexcept ImportError:\n    pass\nx.cuda()\n",
        "try:\n    import torch\n    import torch_npu\nexcept ImportError:\n    pass\nx.npu()\n",
    ),
    "before what follows on the line": (
        "import torch; x.cuda()\nimport os; import torch\n",
        "import torch; import torch_npu; x.npu()\nimport os; import torch\n",
    ),
    "in a body on one line": (
        "def f(): import torch ; return torch.cuda.is_available()\n",
        "def f(): import torch; import torch_npu ; return torch.npu.is_available()\n",
    ),
    "not where types alone are imported": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nx.cuda()\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nx.npu()\n",
    ),
    "in the function that imports torch": (
        "def f():\n    import torch\n    torch.cuda.init()\ndef g():\n    import torch\n",
        "def f():\n    import torch\n    import torch_npu\n    torch.npu.init()\ndef g():\n    import torch\n",
    ),
    "where the attribute that is read gets torch": (
        "class A:\n    def f(self):\n        import torch\n        self.t = torch\n"
        "    def g(self):\n        self.t.cuda.init()\n",
        "class A:\n    def f(self):\n        import torch\n        import torch_npu\n        self.t = torch\n"
        "    def g(self):\n        self.t.npu.init()\n",
    ),
    "not in a file without torch": ("batch.cuda()\n", "batch.npu()\n"),
    "not in a file that does not change": ("import torch\nprint('cuda')\n", "import torch\nprint('cuda')\n"),
}


@pytest.mark.parametrize(("before", "after"), PLUGIN.values(), ids=PLUGIN)
def test_import_torch_npu_once_where_it_is_needed(before: str, after: str) -> None:
    result = run(before.encode())
    assert (result.content or before.encode()).decode() == after
    assert run(after.encode()).content is None


FAILURES = {
    "syntax error": (b"x.cuda()\nx = = 1\n", "syntax error at line 2: invalid syntax"),
    "async": (b"y = 1\nx.cuda(async=True)\n", "line 2 has async=, which Python 3.7 made a keyword"),
    "async in a string": (b"y = 'f(async=1)'\nx.cuda(2\n", "syntax error at line 2"),
    "Python 2": (b"try:\n    x.cuda()\nexcept Exception, e:\n    pass\n", "line 3 is Python 2"),
    "null bytes": (b"x.cuda()\n\0\n", "syntax error at line 2: a null byte"),
    "no encoding of text": (b"# coding: rot13\nx.cuda()\n", "its encoding rot13 cannot be read"),
    "unknown encoding": (b"# coding: klingon\nx.cuda()\n", "unknown encoding"),
    "wrong encoding": (b"x.cuda()\n# \xff\n", "byte 11 is not utf-8"),
    "nested too deeply": (b"x.cuda()\ny = " + b"(" * 3000 + b"1" + b")" * 3000 + b"\n", "too deeply"),
}


@pytest.mark.parametrize(("source", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_file_that_cannot_be_migrated_says_why(source: bytes, reason: str) -> None:
    result = run(source)
    assert result.content is None
    assert result.failure is not None
    assert reason in result.failure
    assert "\n" not in result.failure
    assert unreadable(source, "a.py") == result.failure


def test_a_file_that_can_be_read_has_no_reason() -> None:
    assert unreadable(b"x.cuda()\n", "a.py") is None


def test_a_file_without_a_trigger_is_not_even_parsed() -> None:
    assert run(b"print 'Python 2'\n") == MigratedFile("a.py")


def test_changes_report_where_what_and_why() -> None:
    changes = run(b"import torch\n\nif x:\n    torch.cuda.manual_seed_all(1); y.cuda()\n").changes
    assert [(c.span.start_line, c.rule, c.operation, c.before, c.after) for c in changes] == [
        (1, "torch-cuda", Operation.INSERT, "", "import torch_npu"),
        (4, "torch-cuda", Operation.MODIFY, "torch.cuda.manual_seed_all", "torch.npu.manual_seed_all"),
        (4, "cuda-method", Operation.MODIFY, "cuda", "npu"),
    ]
    assert changes[1].span.start_column == 10


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_of_a_text_of_many_lines_those_that_change_are_listed(newline: str) -> None:
    lines = ["usage = '''", "without options: cpu", "serve --device cuda --port 1", "'''", ""]
    (change,) = run(newline.join(lines).encode()).changes
    assert change.before.rstrip() == "serve --device cuda --port 1"
    assert (change.span.start_line, change.span.start_column) == (3, 0)


def test_traits_of_a_program_that_trains_on_several_cards() -> None:
    assert run(b"import torch.distributed as dist\ndist.init_process_group('gloo')\n").traits == {"multi-card"}
    assert run(b"import torch\ntorch.nn.DataParallel(m)\n").traits == {"multi-card"}
    assert run(b"x.cuda()\n").traits == frozenset()


SNIPPETS = [
    "import torch", "import torch as T", "from torch import cuda", "from torch import cuda, nn",
    "import torch.cuda as tc",
    "from torch.cuda import nvtx, Stream", "from torch.cuda.amp import autocast as ac", "cu = torch.cuda", "cuda = 1",
    "torch.cuda.synchronize()", "T.cuda.empty_cache()", "cuda.device_count()", "x = x.cuda(0)", "y = 'cuda'",
    "device = 'cuda:0' if cuda else \"cpu\"", "print('cuda', f'cuda:{x}')", "x.to(f'cuda:{x}')", "# cuda", "",
    "if x.is_cuda: x.cuda()", "torch.nn.DataParallel(x)", "def f(device='cuda', torch=None): return torch.cuda.x",
    "class A:\n    def cuda(self): return self", "A().cuda()", "import torch_npu", "s = '''cuda\ncuda'''",
    "try:\n    import torch\nexcept ImportError:\n    torch = None", "dist.init_process_group('nccl')", "del cuda",
    "with torch.cuda.stream(s): pass", "lambda: torch.cuda", "global_ = torch.cuda.amp", "torch.cuda.nosuch()",
]  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.sampled_from(SNIPPETS), max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_program_stays_a_program_and_a_second_migration_changes_nothing(
    snippets: list[str], newline: str, final: bool
) -> None:
    text = newline.join(part.replace("\n", newline) for part in snippets) + (newline if final else "")
    result = run(text.encode())
    assert result.failure is None
    after = text if result.content is None else result.content.decode()
    ast.parse(after)
    assert run(after.encode()).content is None
    if not result.changes:
        assert after == text
    assert without_triggers(after) == without_triggers(text)


def without_triggers(text: str) -> list[str]:
    return [line for line in text.splitlines() if not any(word in line for word in ("cuda", "nccl", "npu", "hccl"))]


@pytest.mark.parametrize(
    "line",
    [
        "x = x.cuda()\n",
        "y = {'a': ['cuda:0', 'cpu', 'cuda:1']}\n",
        "def f(x):\n    import torch\n    return x.cuda()\n",
        "x = x.cuda(torch.npu)\ny.f()\n",
    ],
    ids=["one name bound often", "many displays", "many imports", "many calls alike"],
)
def test_four_times_the_file_takes_four_times_the_steps(line: str, steps: Callable[..., int]) -> None:
    once, fourfold = line.encode() * 50, line.encode() * 200
    run(line.encode() * 49)  # fills caches, but for that of parsed files
    assert steps(run, fourfold) < 4.1 * steps(run, once)


def test_a_long_list_of_devices_takes_as_many_steps_as_short_ones(steps: Callable[..., int]) -> None:
    def lists(length: int) -> bytes:
        names = b", ".join(b"n%d" % index for index in range(length))
        return b"names = [" + b"'cuda', " * 2 * length + b"]\n" + names + b" = " + b"'cuda', " * length + b"\n"

    assert len(run(lists(200)).findings) == 600
    assert steps(run, lists(200)) < 4.2 * steps(run, lists(50))


@pytest.mark.parametrize("head", ["if {}:", "while {}:", "for y in {}:", "with {}:", "class A({}):"])
def test_edits_in_the_heads_of_blocks(migrate, head: str) -> None:
    for before, after in (("x.cuda()", "x.npu()"), ("torch.device('cuda')", "torch.device('npu')")):
        assert migrate(f"{head.format(before)}\n    pass\n") == f"{head.format(after)}\n    pass\n"


def test_the_tree_of_a_migrated_file_is_freed_without_the_garbage_collector() -> None:
    run(b"import torch\n")  # what is loaded once
    gc.freeze()  # what other tests left is not counted
    gc.disable()
    try:
        run(b"import torch\nfrom torch import cuda\n" + b"x = [y.cuda() for y in range(cuda.device_count())]\n" * 1000)
        forget_files()
        assert sum(isinstance(each, ast.AST) for each in gc.get_objects()) < 100  # of some 15,000 nodes
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_string_in_code_that_is_replaced_is_not_doubtful() -> None:
    migrated = run(b"import ray\ncount = ray.cluster_resources().get('GPU', 0)\nif kind == 'GPU':\n    pass\n")
    assert migrated.content is not None and b"NPU" in migrated.content
    assert [found.span.start_line for found in migrated.findings if found.api == "'GPU'"] == [3]
