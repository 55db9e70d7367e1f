"""Tests that the facts of a file mean what its whole tree does, and that other files are not kept for a name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpu2npu.python.facts.reading import read_facts
from gpu2npu.python.facts.record import decoded, encoded
from gpu2npu.python.meaning.library import Library
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import offered_names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.file import read_file


def project_of(files: Mapping[str, bytes]) -> Project:
    return Project(frozenset(files), files.__getitem__, library=Library(packages=frozenset({"torch"})))


def names_of(text: str, path: str, project: Project) -> Names:
    return Names(read_file(SourceFile(path, text, "utf-8", b"")), project)


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
def test_the_facts_of_a_file_mean_what_the_file_does(name: str, meaning: str | None) -> None:
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
    exports = names_of(text, "a.py", project_of({})).facts.exports
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


def test_the_words_of_code_are_its_identifiers_texts_and_calls() -> None:
    source = (
        b"'A docstring.'\nimport a.b as c, torch\nfrom d import e as f\n"
        b"def define(parameter): return c.x.y(key='one', z=f'{parameter}:two') # comment\n"
        b"assigned = other[0](b'bytes', 'two words', 'blank ')\nm.n = lambda: g().h()\n"
    )
    facts = read_facts(source, "a.py")
    assert facts is not None
    words = "c x y key z d e a.b torch parameter other m n g h assigned"
    assert facts.names == set(words.split())
    assert facts.texts == {"one", ":two"}
    assert facts.called == {"y", "g", "h"}


@pytest.mark.parametrize(
    ("text", "is_guarded", "acts"),
    [
        ("if __name__ == '__main__' and x:\n    main()\n", True, False),
        ("main()\n", False, True),
        ("for x in y: pass\n", False, True),
        ("with x: pass\n", False, True),
        ("x = main()\nif x:\n    main()\n", False, False),
    ],
)
def test_a_script_is_seen_by_its_guard_or_by_what_it_does(text: str, is_guarded: bool, acts: bool) -> None:
    facts = read_facts(text.encode(), "a.py")
    assert facts is not None and (facts.is_guarded, facts.acts) == (is_guarded, acts)


def test_facts_travel_as_bytes() -> None:
    facts = read_facts(MEANINGS.encode(), "a.py")
    assert facts is not None and decoded(encoded(facts)) == facts
    assert read_facts(b"(", "b.py") is None and decoded(encoded(None)) is None


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        ("x = 1\ny = '''\n# text\n'''\n# more\n", True),
        ("x = 1  # one\ny = '''\n# text\n'''\n", True),
        ("# x\nx = 1\ny = '''\n# text\n'''\n", False),
        ("x = 1\ny = '''\n# other\n'''\n", False),
        ("x = 2\ny = '''\n# text\n'''\n", False),
        ("x = 1; z = '#'\ny = '''\n# text\n'''\n", False),
    ],
)
def test_the_digest_of_the_code_leaves_out_comments_that_move_nothing(after: str, is_same: bool) -> None:
    before = read_facts(b"x = 1\ny = '''\n# text\n'''\n", "a.py")
    facts = read_facts(after.encode(), "a.py")
    assert (facts.code == before.code) is is_same


def test_a_quote_before_the_sign_keeps_the_rest_of_the_line() -> None:
    one, other = (read_facts(f"x = f'{{y}}#{n}'\n".encode(), "a.py") for n in (1, 2))
    assert one.code != other.code
