"""The names that other files take from a file, and those that no file does."""

from __future__ import annotations

import pytest

from gpu2npu.python.project.imports import is_taken
from gpu2npu.python.project.project import Project

HOME = "lib/devices.py"


@pytest.mark.parametrize(
    ("path", "other", "taken"),
    [
        ("lib/a.py", "from lib.devices import cuda", True),
        ("lib/a.py", "from .devices import (  # :)\n    cuda as card)", True),
        ("lib/a.py", "def f():\n    from . devices import cuda", True),
        ("lib/a.py", "from .devices import *", True),
        ("a.py", "import lib.devices as d\nd.cuda.synchronize()", True),
        ("a.py", "from lib import devices\nprint(devices . cuda)", True),
        ("a.py", "import lib.devices\nlib.devices.cuda(0)", True),
        ("a.py", "m = import_module('lib.devices')\nm.cuda.synchronize()", True),
        ("lib/a.py", "m = import_module('.devices', 'lib')\nm.cuda.synchronize()", True),
        ("a.py", "mock.patch('lib.devices.cuda')", True),
        ("a.py", "mock.patch('lib.devices.cuda.synchronize')", True),
        ("a.py", "mock.patch('lib.devices.other')\nprint(x.cuda)", False),
        ("a.py", "mock.patch('lib.others.cuda')\nprint('see devices')", False),
        ("a.py", "mock.patch('lib.devices.other')", False),
        ("a.py", "from lib.devices import other", False),
        ("a.py", "from other.devices import cuda", False),
        ("a.py", "from lib.devices import other\nimport torch\ntorch.cuda.synchronize()", False),
        ("a.py", "import lib.devices as d\nprint(d.other)\nprint(x.cuda)", False),
        ("a.py", "'''\nfrom lib.devices import cuda\n'''", False),
        ("a.py", "# from lib.devices import cuda", False),
        ("a.py", "from lib.devices import", False),
    ],
)
def test_a_name_is_taken(path: str, other: str, taken: bool) -> None:
    sources = {HOME: b"from torch import cuda\n", "lib/__init__.py": b"", path: other.encode()}
    project = Project(frozenset(sources), sources.__getitem__)
    assert is_taken(project, HOME, "cuda") is taken


def test_a_star_takes_what_is_offered() -> None:
    sources = {"a.py": b"from torch import cuda, nn as _nn\n", "b.py": b"from a import *\n"}
    project = Project(frozenset(sources), sources.__getitem__)
    assert is_taken(project, "a.py", "cuda")
    sources["a.py"] += b"__all__ = ['nn']\n"
    assert not is_taken(Project(frozenset(sources), sources.__getitem__), "a.py", "cuda")
