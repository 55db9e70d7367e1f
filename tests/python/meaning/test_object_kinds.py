import ast
import gc
from pathlib import Path

import jedi
import pytest

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.object_kinds import infer_kinds
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import read_source


@pytest.mark.parametrize("enabled", [True, False])
def test_inference_by_jedi_leaves_the_garbage_collector_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, enabled: bool
) -> None:
    """parso switches it on when it has read a file of its cache, and workers would then look at all their trees."""
    enabled_inside: list[bool] = []

    def infer(script: jedi.Script, line: int, column: int) -> list[object]:
        enabled_inside.append(gc.isenabled())
        (gc.disable if enabled else gc.enable)()
        return []

    monkeypatch.setattr(jedi.Script, "infer", infer)
    source = b"def f(kit):\n    kit.cuda()\n"
    (tmp_path / "main.py").write_bytes(source)
    project = Project(frozenset({"main.py"}), lambda path: source, root=tmp_path)
    names = Names.of(read_source(source, "main.py"), project)
    receiver = next(node.value for node in ast.walk(names.file.tree) if isinstance(node, ast.Attribute))
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        infer_kinds(names, receiver, "cuda")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert enabled_inside == [False]
