"""Tests that a file's interface means what its whole tree does, and that other files are parsed no further."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpu2npu.python.meaning.library import Library
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import offered_names
from gpu2npu.python.project.interface import Exports, Interface, listed_names, read_interface
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.file import read_file


def project_of(files: Mapping[str, bytes]) -> Project:
    return Project(frozenset(files), files.__getitem__, library=Library(packages=frozenset({"torch"})))


def names_of(text: str, path: str, project: Project) -> Names:
    return Names(read_file(SourceFile(path, text, "utf-8", b"")), project)


def test_an_interface_that_another_process_has_found_is_not_read_again() -> None:
    files = {"a.py": b"from torch import cuda as c\n", "b.py": b"", "broken.py": b"(\n"}
    project = project_of(files)
    found = {path: project.interface(path, "b.py") for path in ("a.py", "broken.py")}
    other = Project(frozenset(files))  # which reads no file
    other.learn(project.learned())
    assert project.learned() == {}
    assert {path: other.interface(path, "b.py") for path in found} == found
    assert found["a.py"] is not None and found["broken.py"] is None
    assert other.consulted == {"b.py": {"a.py", "broken.py"}}
    assert other.learned() == {}, "it is not handed on"


def test_only_modules_that_may_have_a_name_are_queried() -> None:
    files = {
        "pkg/__init__.py": b"from .one import *\nfrom .two import *\nfrom .three import *\n",
        "pkg/one.py": b"import torch\ndev = 1\n",
        "pkg/two.py": b"from torch import cuda\n",
        "pkg/three.py": b"cuda_count = 1\n",
    }
    project = project_of(files)
    names = names_of("from pkg import cuda\ncuda.synchronize()\n", "main.py", project)
    assert names.name("cuda", names.file.module) == "torch.cuda"
    assert all(project.parsed(path) is None for path in files)  # no tree is kept for a name
    assert project.consulted["main.py"] == {"pkg/__init__.py"}
    assert project.consulted["pkg/__init__.py"] >= {"pkg/one.py", "pkg/two.py"}


def test_modules_without_the_text_of_a_name_are_not_parsed_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "pkg/__init__.py": b"from .plain import *\nfrom .stars import *\nfrom .named import *\n",
        "pkg/plain.py": b"import torch\n",
        "pkg/stars.py": b"from .plain import \\\n  *\n",
        "pkg/named.py": b"from torch import cuda  # \xc3\xa9\n",
    }
    parsed: list[str] = []

    def recorded(source: SourceFile) -> Interface:
        parsed.append(source.path)
        return read_interface(source)

    monkeypatch.setattr("gpu2npu.python.project.interface.read_interface", recorded)
    names = names_of("from pkg import *\ncuda.synchronize()\n", "main.py", project_of(files))
    assert names.name("cuda", names.file.module) == "torch.cuda"
    assert parsed == ["pkg/__init__.py", "pkg/stars.py", "pkg/named.py"]


def test_a_circle_of_star_imports_ends_and_loses_nothing() -> None:
    files = {
        "a.py": b"from b import *\nfrom c import *\n",
        "b.py": b"from a import *\n",
        "c.py": b"import torch as th\n",
    }
    project = project_of(files)
    names = names_of("from b import th\nfrom a import th as other\n", "main.py", project)
    assert names.name("th", names.file.module) == "torch"
    assert names.name("other", names.file.module) == "torch"
    again = names_of("from b import th\n", "again.py", project)
    assert again.name("th", again.file.module) == "torch"


MEANINGS = """
import torch, os.path
import numpy as np
from torch import cuda as gpu, nn
from .near import thing
from . import sibling
try:
    import flash
except ImportError:
    flash = None
try:
    from torch import amp
except ImportError:
    def amp(): pass
alias = torch.cuda
again = alias
number = 1
made = f(torch)
late = importlib.import_module("torch.cuda")
one, two = torch, nn
def function(): pass
class Class: pass
for loop in np: pass
nn = 3
"""
EXPECTED = {
    "torch": "torch",
    "os": "os",
    "np": "numpy",
    "gpu": "torch.cuda",
    "nn": "torch.nn",
    "thing": "torch.cuda.Stream",
    "sibling": ".sibling",
    "flash": "flash",
    "amp": None,
    "alias": "torch.cuda",
    "again": "torch.cuda",
    "number": None,
    "made": None,
    "late": "torch.cuda",
    "one": "torch",
    "two": "torch.nn",
    "function": None,
    "Class": None,
    "loop": None,
    "nothing": None,
}


@pytest.mark.parametrize(("name", "meaning"), EXPECTED.items(), ids=EXPECTED)
def test_an_interface_means_what_the_file_does(name: str, meaning: str | None) -> None:
    files = {
        "pkg/a.py": MEANINGS.encode(),
        "pkg/near.py": b"from torch.cuda import Stream as thing\n",
        "pkg/sibling.py": b"",
    }
    project = project_of(files)
    inside = names_of(MEANINGS, "pkg/a.py", project)
    assert inside.name(name, inside.file.module) == meaning
    assert inside.global_name(name) == meaning
    outside = names_of(f"from .a import {name}\n", "pkg/main.py", project)
    followed = outside.name(name, outside.file.module)
    by_path = meaning is None or meaning.startswith(".")  # known by the path to it only
    assert followed == (f".a.{name}" if by_path else meaning)


def test_definitions_are_found_through_re_exports() -> None:
    files = {
        "pkg/__init__.py": b"from .inner import *\n",
        "pkg/inner.py": b"from .deep import Net as Model\nvalue = make()\n",
        "pkg/deep.py": b"class Net: ...\n",
    }
    project = project_of(files)
    main = names_of("from pkg import Model\n", "main.py", project)
    found = main.exported("pkg.Model")
    assert found is not None
    assert (found.names.path, type(found.bound).__name__) == ("pkg/deep.py", "Defined")
    assert main.exported("pkg.value") is not None
    assert main.exported("pkg.missing") is None


@pytest.mark.parametrize(
    ("text", "names", "is_whole"),
    [
        ("__all__ = ['a', 'b']", "a b", True),
        ("__all__ = ['a'] + ['b']\n__all__ += ('c',)", "a b c", True),
        ("__all__: list[str] = [*['a'], 'b']\n__all__.extend(['c'])\n__all__.append('d')", "a b c d", True),
        ("__all__ = ['a', *other.__all__]", "a", False),
        ("__all__ = ['a']\n__all__.extend(name for name in dir(other) if name != 'b')", "a", False),
        ("from other import __all__", "", False),
        ("if x:\n    __all__ = []\nelse:\n    __all__ = ['a']", "a", True),
    ],
)
def test_what_all_lists(text: str, names: str, is_whole: bool) -> None:
    exports = names_of(text, "a.py", project_of({})).interface.exports
    assert exports is not None
    assert (exports.names, exports.is_whole) == (frozenset(names.split()), is_whole)


def test_names_that_stars_bring_in_are_given_with_the_file_that_binds_them() -> None:
    files = {
        "pkg/__init__.py": b"from .closed import *\nfrom .open import *\nown = _own = 1\n",
        "pkg/closed.py": b"from .inner import *\n__all__ = ['_listed', 'deep', 'missing']\n_listed = hidden = 1\n",
        "pkg/inner.py": b"from . import *\ndeep = other = 1\n",
        "pkg/open.py": b"public = _private = 1\n",
    }
    init, closed, inner, open_ = files
    assert offered_names(project_of(files), init) == {
        "own": init, "_own": init, "_listed": closed, "deep": inner, "missing": closed, "public": open_
    }  # fmt: skip


ENDS = {
    "a list": ("def f(): ...\n\n__all__ = ['a', \"b\"]\n", {"a", "b"}),
    "a tuple with more behind it": ('import x\n__all__ = (\n    "a",  # (\n)\nb = 1\n', {"a"}),
    "a sum of lists": ("__all__ = ['a'] + ['b']", {"a", "b"}),
    "an empty list": ("\r\n__all__ = []\r\n", set()),
    "none": ("a = 1\n", None),
    "one in a string": ('s = """\n__all__ = ["a"]\n"""\n', None),
    "one in a string with quotes behind it": ('s = """\n__all__ = ["a"]\n"""\n# """\n', None),
    "one in a string that goes on": ("s = 'x\\\n__all__ = []'\n", None),
    "one behind a backslash": ("x = \\\n__all__ = ['a']\n", None),
    "one behind a backslash and a Windows line end": ("s = 'x\\\r\n__all__ = []'\r\n", None),
    "one in brackets": ("dict(\n__all__ = ['a']\n)\n", None),
    "one in a block": ("if x:\n    __all__ = ['a']\n", None),
    "one that grows": ("__all__ = ['a']\n__all__ += ['b']\n", None),
    "one that is spelled otherwise too": ("__all__ = ['a']\n__\uff41ll__.append('b')\n", None),
    "one that is computed": ("__all__ = ['a', name]\n", None),
    "one of two names": ("__all__ = names = ['a']\n", None),
    "one that is only read": ("__all__\n", None),
    "a wrong end": ("__all__ = ['a']\n)\n", None),
    "a long one": (f"__all__ = ['a']\n{'x = 1  # and so on' * 2000}\n", None),
}


@pytest.mark.parametrize(("text", "listed"), ENDS.values(), ids=ENDS)
def test_the_end_of_a_file_lists_what_its_star_brings(text: str, listed: set[str] | None) -> None:
    assert listed_names(text) == listed
    if listed is not None:  # as the whole tree has it
        assert read_interface(SourceFile("a.py", text, "utf-8", b"")).exports == Exports(frozenset(listed), True)


def test_modules_that_list_other_names_are_not_parsed_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "pkg/__init__.py": b"from .user import *\nfrom .base import *\n",
        "pkg/user.py": b"from .base import th  # \xc3\xa9\n\n__all__ = ['Net']\n",
        "pkg/base.py": b"import torch as th\n\n__all__ = ['th']\n",
    }
    parsed: list[str] = []

    def recorded(source: SourceFile) -> Interface:
        parsed.append(source.path)
        return read_interface(source)

    monkeypatch.setattr("gpu2npu.python.project.interface.read_interface", recorded)
    project = project_of(files)
    names = names_of("from pkg import *\nth.cat(x)\n", "main.py", project)
    assert names.name("th", names.file.module) == "torch"
    assert parsed == ["pkg/__init__.py", "pkg/base.py"]
    assert project.consulted["pkg/__init__.py"] == {"pkg/user.py", "pkg/base.py"}
