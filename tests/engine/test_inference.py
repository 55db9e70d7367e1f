"""Tests of what jedi is used for, and that this runs nothing of the user's."""

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
