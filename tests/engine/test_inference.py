"""The objects whose method has the name of a tensor's: by where they come from, and without running the user's code."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from gpu2npu.engine import migrate_source, scan_project


def test_no_code_of_the_project_is_imported(rulebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The project is even on this interpreter's own path, as it is for `python -m gpu2npu` started inside it.
    monkeypatch.syspath_prepend(str(tmp_path))
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    bomb = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
    files = {
        "kit.py": f"{bomb}class Kit:\n    def cuda(self): ...\n",
        "setup.py": bomb,
        "conftest.py": bomb,
        "use.py": "import native\nfrom kit import Kit\nkits = {1: Kit()}\nkits[1].cuda()\nnative.make().cuda()\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / f"native{suffix}").write_bytes(b"no library: loading it would raise")
    data = {name: text.encode() for name, text in files.items()}
    before = set(sys.modules)
    context = scan_project(data, rulebook, "2.1.0", read=data.__getitem__, root=tmp_path)
    result = migrate_source(data["use.py"], "use.py", rulebook, context)
    assert result.content is not None
    assert result.content.decode().splitlines()[3:] == ["kits[1].cuda()", "native.make().npu()"]
    assert not list(tmp_path.glob("*.ran"))
    assert not {"kit", "native", "setup", "conftest"} & (set(sys.modules) - before)


OWN = "class Pack:\n    def cuda(self): return self\n"


@pytest.mark.parametrize(
    ("files", "is_renamed", "is_reported"),
    [
        (
            {
                "graph.py": f"{OWN}class Graph:\n    @classmethod\n    def read(cls, n): return cls(n)\n"
                "    def repeat(self, n): return self.packed(n)\nGraph.packed = Pack\n",
                "use.py": "from graph import Graph\nGraph.read(1).repeat(2).cuda()\n",
            },
            False,
            False,
        ),
        (
            {
                "kit/__init__.py": "from .pack import Pack\npack = Pack()\n",
                "kit/pack.py": OWN,
                "use.py": "from kit import pack\npack.cuda()\n",
            },
            False,
            False,
        ),
        (
            {"pack.py": OWN, "use.py": "import torch\ndef f(n):\n    x = [torch.rand(n)]\n    x[0].cuda()\n"},
            True,
            False,
        ),
        ({"pack.py": OWN, "use.py": "def f(x):\n    x.cuda()\n"}, True, True),
        ({"use.py": f"{OWN}def f(x):\n    x.cuda()\nf(Pack())\n"}, False, False),
        ({"use.py": f"import torch\n{OWN}def f(x):\n    x.cuda()\nf(Pack())\nf(torch.rand(2))\n"}, True, True),
        ({"use.py": f"import other\n{OWN}def f(x):\n    x.cuda()\nf(Pack())\nf(other.make())\n"}, False, True),
    ],
)
def test_an_object_is_what_its_value_comes_from(project, files, is_renamed, is_reported):
    result = project(files)["use.py"]
    assert (b".npu()" in (result.content or b"")) == is_renamed
    assert [found.rule for found in result.findings] == ["cuda-method"] * is_reported
