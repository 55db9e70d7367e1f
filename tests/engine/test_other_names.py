"""Functions and classes of a library that a file of the project offers under another name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu2npu.engine import scan_project
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.rulebook import load_rulebook

RULES = [
    {"id": "code", "match": {"code": "lib.norm($X)"}, "then": {"replace": "lib.npu_norm($X)"}},
    {"id": "call", "match": {"call": "lib.start"}, "then": {"rename": "begin"}},
    {"id": "argument", "match": {"argument": "fast", "of": "lib.compile"}, "then": {"remove": True}},
    {"id": "base", "match": {"class": "lib.Trainer"}, "then": {"remove": True}},
    {"id": "decorator", "match": {"decorator": "lib.graph"}, "then": {"remove": True}},
    {"id": "member", "match": {"member": "lib.Loader.pin_gpu"}, "then": {"rename": "pin_npu"}},
]
OURS = """\
import lib
from lib import norm as our_norm, Trainer as OurTrainer, graph as our_graph
from lib import Loader as OurLoader

ours_compile = lib.compile


def make() -> OurLoader:
    return OurLoader()
"""


def migrated(tmp_path: Path, files: dict[str, str]) -> dict[str, str]:
    entries = [{"why": "Because.", "examples": [{"keep": ""}], **rule} for rule in RULES]
    (tmp_path / "own.json").write_text(json.dumps({"rules": entries}), encoding="utf-8")
    rulebook = load_rulebook([tmp_path / "own.json"])
    sources = {path: text.encode() for path, text in files.items()}
    context = scan_project(sources, rulebook, "2.1.0", sources.__getitem__)
    results = {path: migrate_file(source, path, rulebook, context) for path, source in sources.items()}
    assert not any(result.findings for result in results.values())
    return {path: (result.content or sources[path]).decode() for path, result in results.items()}


def test_what_is_offered_under_another_name_is_matched_in_files_without_a_word_of_the_rule(tmp_path: Path) -> None:
    files = {
        "ours.py": OURS,
        "code.py": "import ours\n\nours.our_norm(2)\n",
        "again.py": "from ours import our_norm as third_norm\n",
        "far.py": "import lib\nfrom again import third_norm\n\nthird_norm(2)\n",
        "argument.py": "from ours import ours_compile\n\nours_compile(net, fast=True)\n",
        "base.py": "import ours\n\n\nclass A(ours.OurTrainer):\n    pass\n",
        "decorator.py": "import ours\n\n\n@ours.our_graph\ndef f(): ...\n",
        "member.py": "from ours import OurLoader\n\nOurLoader().pin_gpu()\n",
        "made.py": "from ours import make\n\nloader = make()\nloader.pin_gpu()\n",
    }
    results = migrated(tmp_path, files)
    assert results["code.py"] == "import lib\n\nlib.npu_norm(2)\n"
    assert results["far.py"] == "import lib\nfrom lib import npu_norm\n\nnpu_norm(2)\n"
    assert results["argument.py"] == "from ours import ours_compile\n\nours_compile(net)\n"
    assert results["base.py"] == "\n\nclass A:\n    pass\n"
    assert results["decorator.py"] == "\n\ndef f(): ...\n"
    assert results["member.py"] == "from ours import OurLoader\n\nOurLoader().pin_npu()\n"
    assert results["made.py"] == "from ours import make\n\nloader = make()\nloader.pin_npu()\n"


def test_a_name_of_the_programs_own_stays(tmp_path: Path) -> None:
    own = "def our_norm(x): ...\n\n\nour_norm(2)\n"
    assert migrated(tmp_path, {"ours.py": OURS, "own.py": own})["own.py"] == own


def test_prose_gives_no_other_names() -> None:
    """Else every file would be looked at: a name from prose is a word of all of them."""
    prose = b'"""Uses the Trainer as\nis, or compile as well, and profile as the\ndefault."""\n'
    source = prose + b"from a import b, graph as g2\n"
    assert dict(scan_project({"a.py": source}, load_rulebook(), "2.7.1").other_names) == {b"g2": frozenset({"graph"})}


@pytest.mark.parametrize(
    "source",
    [
        "from lib import (norm  # ours\n    as n)",
        "from lib import norm \\\n    as n",
        "try:\n    import lib\n    n = lib.norm\nexcept ImportError:\n    n = None",
        "n: object = (lib.norm)",
        "m = n = lib.norm; print(n)",
        "if (n := lib.norm): pass",
        "if f(1): n = lib.norm",
        "n = \\\n    lib.norm",
        "n = (\n    lib . norm\n)",
        "f(\n    1); n = lib.norm",
        "# as in f(\nn = lib.norm",
        "n = lib.norm\nm = n\nn = m",
    ],
)
def test_other_names_are_those_that_the_module_binds(tmp_path: Path, source: str) -> None:
    files = {"ours.py": f"import lib\n{source}\n", "use.py": "import ours\n\nours.n(2)\n"}
    assert "npu_norm(2)" in migrated(tmp_path, files)["use.py"]


def test_a_name_within_a_function_is_no_other_name() -> None:
    sources = {"a.py": b"def f():\n    from a import graph as g2\n    g3 = a.graph\n"}
    assert not scan_project(sources, load_rulebook(), "2.7.1").other_names
