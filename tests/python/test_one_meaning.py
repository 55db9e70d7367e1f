"""Rules, analyses, migrate, check and analyse mean the same by a name: programs in which the four that there once were
differed, and more of their kind.

`MEANS(x)` is a line where x is torch, `OTHER(x)` one where it is not. Each stands for a use that a rule edits and one
that an analysis reports.
"""

from __future__ import annotations

import re
import sys

import pytest

from gpu2npu.project.migration import preview_project
from gpu2npu.project.settings import Settings
from gpu2npu.records import MigratedFile
from tools.agreement import agreement

_USE = re.compile(r"(MEANS|OTHER)\(([\w.]+)\)")

PROGRAMS: dict[str, str | dict[str, str]] = {
    "a walrus in a comprehension": """
        def f(xs):
            [torch := x for x in xs]
            OTHER(torch)
        MEANS(torch)
        """,
    "the variable of a comprehension": """
        [OTHER(torch) for torch in xs]
        MEANS(torch)
        """,
    "the first iterable of a comprehension": """
        def f():
            [torch for torch in MEANS(torch)]
        """,
    "a generator": """
        def f(xs):
            any(OTHER(torch) for torch in xs)
            MEANS(torch)
        """,
    "the rest of a mapping": """
        def f(v):
            match v:
                case {"a": 1, **torch}:
                    OTHER(torch)
        MEANS(torch)
        """,
    "an augmented assignment": """
        def f():
            torch += 1
            OTHER(torch)
        MEANS(torch)
        """,
    "an item that is set": """
        def f(k, v):
            torch[k] = v
            MEANS(torch)
        """,
    "an attribute that is set": """
        def f(v):
            torch.flag = v
            MEANS(torch)
        """,
    "global and import": """
        def f():
            global th
            import torch as th
        def g():
            MEANS(th)
        """,
    "global and an assignment": """
        def f():
            global torch
            MEANS(torch)
        """,
    "nonlocal": """
        def f():
            import torch as th
            def g():
                nonlocal th
                MEANS(th)
        """,
    "del": """
        def f():
            del torch
            OTHER(torch)
        MEANS(torch)
        """,
    "the name of an exception": """
        def f():
            try:
                pass
            except E as torch:
                OTHER(torch)
        MEANS(torch)
        """,
    "a name of a class": """
        class A:
            torch = None
            OTHER(torch)
            def f(self):
                MEANS(torch)
        """,
    "a comprehension in a class": """
        class A:
            torch = [1]
            xs = [MEANS(torch) for x in torch]
            ys = [x for x in OTHER(torch)]
        """,
    "a field of a named tuple": """
        class T(typing.NamedTuple):
            torch: int
            def f(self):
                OTHER(self.torch)
        MEANS(torch)
        """,
    "a function of that name": """
        def outer():
            def torch(): ...
            OTHER(torch)
        MEANS(torch)
        """,
    "a parameter": """
        def f(torch):
            OTHER(torch)
        """,
    "a default": """
        def f(torch=MEANS(torch)):
            OTHER(torch)
        """,
    "the default of a lambda": """
        f = lambda torch=MEANS(torch): OTHER(torch)
        """,
    "a decorator": """
        @d(MEANS(torch))
        def f(torch):
            OTHER(torch)
        """,
    "an annotation": """
        def f():
            torch: int
            OTHER(torch)
        MEANS(torch)
        """,
    "annotations that are not evaluated": {
        "main.py": """
            from __future__ import annotations
            import torch as th
            def f(th: th.Tensor) -> th.Tensor:
                OTHER(th)
            MEANS(th)
            """
    },
    "the target of a loop": """
        def f(xs):
            for torch in xs:
                OTHER(torch)
        MEANS(torch)
        """,
    "with": """
        def f(x):
            with x as torch:
                OTHER(torch)
        MEANS(torch)
        """,
    "an import of a function": {
        "main.py": """
            def f():
                import torch as th
                MEANS(th)
            OTHER(th)
            """
    },
    "a conditional import": {
        "main.py": """
            if fast:
                import torch as th
            else:
                import torch as th
            MEANS(th)
            """
    },
    "an optional import": {
        "main.py": """
            try:
                import torch as th
            except ImportError:
                th = None
            MEANS(th)
            """
    },
    "two hops": {
        "a.py": "import torch as th",
        "b.py": "from a import th",
        "main.py": """
            from b import th
            MEANS(th)
            """,
    },
    "a star": {
        "a.py": "import torch as th",
        "main.py": """
            from a import *
            MEANS(th)
            """,
    },
    "a star without the name": {
        "a.py": "import torch as th\n__all__ = ['x']\nx = 1",
        "main.py": """
            from a import *
            OTHER(th)
            """,
    },
    "a star with the name": {
        "a.py": "import torch as th\n__all__ = ['th']",
        "main.py": """
            from a import *
            MEANS(th)
            """,
    },
    "a star with more names than are listed at first": {
        "a.py": "import torch as th\n__all__ = ['x']\n__all__ += ['th']",
        "b.py": "import torch as other\n__all__ = ['x']\n__all__.append('other')",
        "main.py": """
            from a import *
            from b import *
            MEANS(th)
            MEANS(other)
            """,
    },
    "a module under another name": {
        "p/__init__.py": "",
        "p/b.py": "import torch",
        "main.py": """
            import p.b as c
            MEANS(c.torch)
            """,
    },
    "a circle": {
        "a.py": "from main import y\nimport torch as th",
        "main.py": """
            from a import th
            y = 1
            MEANS(th)
            """,
    },
    "a folder src": {
        "src/p/__init__.py": "",
        "src/p/a.py": "import torch as th",
        "main.py": """
            from p.a import th
            MEANS(th)
            """,
    },
    "a re-export of a package": {
        "p/__init__.py": "from .a import th",
        "p/a.py": "import torch as th",
        "main.py": """
            from p import th
            MEANS(th)
            """,
    },
    "a relative import": {
        "p/__init__.py": "",
        "p/a.py": "import torch as th",
        "p/main.py": """
            from . import a
            from .a import th as other
            MEANS(a.th), MEANS(other)
            """,
    },
}
if sys.version_info >= (3, 12):
    PROGRAMS["an alias of a type"] = """
        def f():
            type torch = int
            OTHER(torch)
        MEANS(torch)
        """


def _files(program: str | dict[str, str]) -> dict[str, str]:
    """The files of a program; one of a single file imports torch."""
    if isinstance(program, dict):
        return {path: _dedented(text) for path, text in program.items()}
    return {"main.py": f"import torch\n{_dedented(program)}"}


def _dedented(text: str) -> str:
    lines = text.strip("\n").rstrip(" ").splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[indent:] for line in lines) + "\n"


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MigratedFile]:
    """All programs after one migration, each file by its path, about which migrate, check and analyse agree."""
    root = tmp_path_factory.mktemp("programs")
    for name, program in PROGRAMS.items():
        for path, text in _files(program).items():
            file = root / f"{_folder(name)}{path}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_USE.sub(r"(\2.cuda.synchronize(), \2.sspaddmm(1, 2, 3))", text))
    assert agreement(root, "2.1.0").disagreements == ()
    return {file.path: file for file in preview_project(root, Settings("2.1.0", jobs=1)).outcome.files}


def _folder(name: str) -> str:
    """Return the folder of a program: `src` is a folder of the whole project."""
    return "" if name == "a folder src" else f"{name.replace(' ', '_')}/"


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_and_analyses_mean_the_same(name: str, migrated: dict[str, MigratedFile]) -> None:
    for path, text in _files(PROGRAMS[name]).items():
        uses = [
            (line, each[1])
            for line, content in enumerate(text.splitlines(), start=1)
            for each in _USE.finditer(content)
        ]
        means = sorted(line for line, kind in uses if kind == "MEANS")
        file = migrated[f"{_folder(name)}{path}"]
        edited = [change.span.start_line for change in file.changes if change.after.endswith("synchronize")]
        reported = [found.span.start_line for found in file.findings if found.api == "torch.sspaddmm"]
        assert (sorted(edited), sorted(reported)) == (means, means)
