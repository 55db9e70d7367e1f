from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu2npu.formats.notebook import cell_lines


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": 1,
        "id": "ab",
        "metadata": {},
        "outputs": [],
        "source": source,
    } | more


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "cd", "metadata": {}, "source": [source]}


def notebook(*cells: dict[str, Any], indent: int | None = 1, ascii_only: bool = False, language: str = "python") -> str:
    metadata = {"kernelspec": {"name": "k", "language": language}}
    whole = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=indent, ensure_ascii=ascii_only) + "\n"


def sources(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def test_cells_share_one_namespace(migrated) -> None:
    text = notebook(
        code(["import torch\n", "from torch import cuda as cu"]),
        markdown("# cuda\n"),
        code(["cu.synchronize()\n", "x = torch.ones(2).cuda()"]),
    )
    assert sources(migrated(text, "a.ipynb")) == [
        "import torch\nimport torch_npu\nfrom torch import npu as cu",
        "# cuda\n",
        "npu.synchronize()\nx = torch.ones(2).npu()".replace("npu.s", "cu.s"),
    ]


def test_all_but_the_changed_lines_stay_to_the_byte(migrated) -> None:
    outputs = [{"name": "stdout", "output_type": "stream", "text": ["device: cuda:0\n"]}]
    for indent, ascii_only in ((1, False), (2, True), (None, False)):
        cell = code(["s = 'é\\t'\n", "m.to('cuda')  # ü \"x\"\n", "y"], outputs=outputs, metadata={"device": "cuda"})
        before = notebook(markdown("device: cuda"), cell, indent=indent, ascii_only=ascii_only)
        assert migrated(before, "a.ipynb") == before.replace("m.to('cuda')", "m.to('npu')")


def test_a_source_of_one_string(migrated) -> None:
    text = notebook(code("import torch\nx = '\\t'\nif torch.cuda.is_available(): pass"))
    expected = "import torch\nimport torch_npu\nx = '\\t'\nif torch.npu.is_available(): pass"
    assert sources(migrated(text, "a.ipynb")) == [expected]


def test_an_import_after_the_last_line(migrated) -> None:
    text = notebook(code(["import torch"]), code(["torch.cuda.synchronize()"]))
    new = migrated(text, "a.ipynb")
    assert [cell["source"] for cell in json.loads(new)["cells"]] == [
        ["import torch\n", "import torch_npu"],
        ["torch.npu.synchronize()"],
    ]


MAGICS = [
    ("%matplotlib inline\nm.to('cuda')", "%matplotlib inline\nm.to('npu')"),
    ("%%time\nm.to('cuda')", "%%time\nm.to('npu')"),
    ("%timeit m.to('cuda')", "%timeit m.to('npu')"),
    ("%timeit -n 10 -r3 -q m.to('cuda')", "%timeit -n 10 -r3 -q m.to('npu')"),
    ("%time m.to('cuda')\nx?", "%time m.to('npu')\nx?"),
    ("if x:\n    !nvidia-smi\n    m.to('cuda')", "if x:\n    !npu-smi info\n    m.to('npu')"),
    ("!python t.py \\\n  --device cuda\nm.to('cuda')", "!python t.py \\\n  --device npu\nm.to('npu')"),
    ("%env CUDA_VISIBLE_DEVICES=0", "%env ASCEND_RT_VISIBLE_DEVICES=0"),
    ("%run t.py --device cuda", "%run t.py --device npu"),
    ("out = !nvidia-smi", "out = !npu-smi info"),
    ("%%bash\nCUDA_VISIBLE_DEVICES=0 nvidia-smi", "%%bash\nASCEND_RT_VISIBLE_DEVICES=0 npu-smi info"),
    ("%%writefile c.yaml\ndevice: cuda\n", "%%writefile c.yaml\ndevice: npu\n"),
    ("%%writefile t.py\nm.to('cuda')\n", "%%writefile t.py\nm.to('npu')\n"),
    ("x = '''\n!nvidia-smi\n'''\nm.to('cuda')", "x = '''\n!nvidia-smi\n'''\nm.to('npu')"),
    ("%%html\n<b>device: cuda</b>", "%%html\n<b>device: cuda</b>"),
    ("await m.to('cuda')", "await m.to('npu')"),
]


@pytest.mark.parametrize(("before", "after"), MAGICS)
def test_magics(migrated, before: str, after: str) -> None:
    text = notebook(code(["x = 1"]), code(before.splitlines(keepends=True)))
    assert sources(migrated(text, "a.ipynb")) == ["x = 1", after]


def test_skip_comments_of_lines_that_are_no_python(migrated) -> None:
    shell = ["x = 1\n!nvidia-smi  # gpu2npu: skip\n!nvidia-smi", "%%bash\n# gpu2npu: skip\nnvidia-smi\nnvidia-smi"]
    after = ["x = 1\n!nvidia-smi  # gpu2npu: skip\n!npu-smi info", "%%bash\n# gpu2npu: skip\nnvidia-smi\nnpu-smi info"]
    assert sources(migrated(notebook(*map(code, shell)), "a.ipynb")) == after
    whole = notebook(code("# gpu2npu: skip=command-nvidia-smi\nx = 1"), code("!nvidia-smi\nx.cuda()"))
    assert sources(migrated(whole, "a.ipynb"))[1] == "!nvidia-smi\nx.npu()"


def test_places_are_cells_and_their_lines(migrate) -> None:
    text = notebook(
        markdown("a"),
        code(["!ls\n", "import torch\n", "torch.cuda.nccl.version()"]),
        code(["\n", "m.to('cuda')\n", "!nsys profile x"]),
        code(["%%writefile t.py\n", "m.to('cuda')\n"]),
    )
    result = migrate(text, "a.ipynb")
    assert [(c.span.cell, c.span.start_line) for c in result.changes] == [(2, 2), (3, 2), (4, 2)]
    assert [(f.span.cell, f.span.start_line) for f in result.findings] == [(2, 3), (3, 3)]
    assert list(cell_lines(text)) == [(2, text[: text.index("!ls")].count("\n") + 1), *list(cell_lines(text))[1:]]


def test_a_cell_that_is_no_python_does_not_stop_the_others(migrate) -> None:
    result = migrate(notebook(code(["this is 'cuda' prose:"]), code(["m.to('cuda')"])), "a.ipynb")
    assert sources(result.content.decode()) == ["this is 'cuda' prose:", "m.to('npu')"]
    assert [finding.span.cell for finding in result.findings] == [1]


def test_other_languages_and_other_formats_stay(migrate) -> None:
    assert migrate(notebook(code(["x('cuda')"]), language="R"), "a.ipynb").content is None
    for text, reason in (
        ('{"worksheets": [{"cells": [{"input": "cuda"}]}]}', "it is not a notebook of format 4"),
        ('{"cells": "cuda"', "it is not JSON (line 1: a comma or '}' is missing)"),
        ('{"cells": "cuda words"', None),
        ("cuda", None),
    ):
        result = migrate(text, "a.ipynb")
        assert (result.content, result.failure) == (None, reason)


LINES = st.sampled_from(
    ["x = 1", "m.to('cuda')", "!nvidia-smi", "%time y = 2", "import torch", "torch.cuda.synchronize()", "# ü", "", "z?"]
)
CELLS = st.lists(LINES, max_size=4).map(lambda lines: "\n".join(lines).splitlines(keepends=True))


@settings(max_examples=40)
@given(st.lists(CELLS, min_size=1, max_size=4), st.sampled_from([None, 1]), st.booleans())
def test_any_notebook(migrated, cells: list[list[str]], indent: int | None, one_string: bool) -> None:
    text = notebook(*(code("".join(cell) if one_string else cell) for cell in cells), indent=indent)
    new = json.loads(migrated(text, "a.ipynb"))
    old = json.loads(text)
    for before, after in zip(old["cells"], new["cells"], strict=True):
        lines = "".join(after.pop("source")).replace("import torch_npu\n", "").removesuffix("\nimport torch_npu")
        changed = "".join(before.pop("source")).replace("cuda", "npu").replace("nvidia-smi", "npu-smi info")
        assert lines == changed
        assert before == after
    del old["cells"], new["cells"]
    assert old == new


STATEMENTS = st.sampled_from(
    [
        "import torch",
        "import os, torch",
        "from torch.cuda import amp, nccl",
        "model.to(\n    'cuda',  # ü\n    non_blocking=True,\n)",
        "with torch.cuda.amp.autocast(\n    enabled=True,\n    cache_enabled=False,\n):\n    model.cuda()",
        "dist.init_process_group(\n  backend='nccl',\n)",
        'if x:\n    y = f"""{model.cuda()}\n{torch.cuda.device_count()}"""',
        "x = torch.cuda.FloatTensor(2); torch.backends.cudnn.benchmark = True",
        "# a comment",
        "",
        "\n",
    ]
)
PYTHON_CELLS = st.lists(st.lists(STATEMENTS, max_size=3).map("\n".join), min_size=1, max_size=4)


@settings(max_examples=40)
@given(PYTHON_CELLS, st.sampled_from([None, 1]), st.booleans())
def test_cells_are_changed_as_the_same_code_in_one_file_is(
    migrated, cells: list[str], indent: int | None, one_string: bool
) -> None:
    whole = migrated("\n".join(cells) + "\n", "a.py").removesuffix("\n")
    written = (code(cell if one_string else cell.splitlines(keepends=True)) for cell in cells)
    assert "\n".join(sources(migrated(notebook(*written, indent=indent), "a.ipynb"))) == whole


def test_an_edit_over_several_lines_leaves_the_strings_of_the_others(migrated) -> None:
    lines = ["import torch\n", "f(\n", "    'cuda',\n", "    1)\n", "\n", "%time m.to('cuda')\n", "x = 1\n"]
    after = ["import torch\n", "import torch_npu\n", *(line.replace("cuda", "npu") for line in lines[1:])]
    text = notebook(code(lines), code(["%%writefile a.py\n", "# coding: latin-1\n", "x = 'ü'\n", "y.to('cuda')"]))
    new = json.loads(migrated(text.replace("f(", "torch.cuda.set_device("), "a.ipynb"))
    assert new["cells"][0]["source"] == [line.replace("f(", "torch.npu.set_device(") for line in after]
    assert new["cells"][1]["source"][1:] == ["# coding: latin-1\n", "x = 'ü'\n", "y.to('npu')"]


def test_a_truncated_notebook_with_cuda_in_its_code_fails(migrate) -> None:
    found = migrate('{"cells": [{"cell_type": "code", "source": ["x = x.cuda()\\n"', "a.ipynb")
    assert (found.content, found.failure) == (None, "it is not JSON (line 1: a comma or ']' is missing)")
