"""Files that nothing loads at once, and what blocks in them."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from gpu2npu.project.check.choice import CheckChoice
from gpu2npu.project.check.later import LaterCode
from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.parts import parts_of
from gpu2npu.python.tree import file
from gpu2npu.python.tree.syntax_tree import parse
from gpu2npu.records import Finding, FindingKind, Severity, Span
from gpu2npu.report.check.result import Part, Verdict

KERNELS = "pkg/kernels/__init__.py"


def later_code(files: dict[str, bytes]) -> LaterCode:
    return LaterCode(files, parts_of(files))


def is_later(path: str, **sources: str) -> bool:
    """`sources` have `__` for the slashes of their paths."""
    files = {f"{name.replace('__', '/')}.py": textwrap.dedent(text).encode() for name, text in sources.items()}
    files |= {
        "pkg/__init__.py": b"",
        KERNELS: b"from pkg.kernels.ops import run\n",
        "pkg/kernels/ops.py": b"import x\n",
    }
    return later_code(files).is_loaded_later(path)


@pytest.mark.parametrize(
    ("importer", "later"),
    [
        ("def f():\n    from pkg.kernels import run\n", True),
        ("def f():\n    from pkg.kernels import run\n\nf()\n", False),
        ("from pkg.kernels import run\n", False),
        ("from pkg.kernels.ops import run\n", False),
        ("import pkg.kernels.other\n", False),
        ("try:\n    from pkg.kernels import run\nexcept ImportError:\n    run = None\n", True),
        ("try:\n    from pkg.kernels import run\nexcept ImportError:\n    raise RuntimeError('build it')\n", False),
        ("try:\n    pass\nexcept ImportError:\n    from pkg.kernels import run\n", False),
        ("kernels = 1\n", False),
    ],
)
@pytest.mark.parametrize("path", [KERNELS, "pkg/kernels/ops.py"])
def test_the_importers_decide(path: str, importer: str, later: bool) -> None:
    assert is_later(path, pkg__model=importer) is later


@pytest.mark.parametrize(
    ("between", "later"),
    [("import pkg.model\n", True), ("from pkg.model import *\n", False), ("from pkg.model import f\n", False)],
)
def test_a_function_of_the_same_name_elsewhere_calls_nothing(between: str, later: bool) -> None:
    deferred = "def f():\n    from pkg.kernels import run\n"
    own = "import pkg.top\ndef f(): pass\nf()\n"
    assert is_later(KERNELS, pkg__model=deferred, pkg__top=between, main=own) is later


def test_every_importer_counts() -> None:
    deferred = "def f():\n    from pkg.kernels import run\n"
    assert is_later(KERNELS, pkg__a=deferred, pkg__b=deferred)
    assert not is_later(KERNELS, pkg__a=deferred, pkg__b="import pkg.kernels\n")
    assert is_later(KERNELS, pkg__a=deferred, tests__test_b="import pkg.kernels\n")


def test_a_name_that_is_no_utf_8() -> None:
    assert not is_later("pkg/caf\udce9.py", **{"pkg__caf\udce9": "import x\n"})


def test_a_program_is_not_loaded_later() -> None:
    start = "if __name__ == '__main__':\n    main()\n"
    assert not is_later("train.py", train=start, pkg__model="def f():\n    import train\n")


def test_a_file_that_is_loaded_by_a_made_up_name_is_not() -> None:
    deferred = "def f():\n    from pkg.kernels import run\n"
    assert not is_later(
        "pkg/kernels/ops.py", pkg__a=deferred, pkg__kernels__load="import_module(f'pkg.kernels.{name}')\n"
    )


SETUP = "from torch.utils.cpp_extension import CUDAExtension\n"


def test_a_package_of_its_own_that_is_built_by_hand() -> None:
    setup = f"{SETUP}setup(ext_modules=[CUDAExtension('x', ['x.cu'])])\n"
    assert is_later("pkg/kernels/setup.py", pkg__kernels__setup=setup, pkg__a="def f():\n    import pkg.kernels\n")
    assert not is_later("pkg/kernels/setup.py", pkg__kernels__setup=setup, pkg__a="import pkg.kernels\n")
    assert not is_later("setup.py", setup=setup)


@pytest.mark.parametrize("end", ["sys.exit('x')", "exit(1)", "quit()", "os._exit(1)", "raise", "raise SystemExit"])
def test_a_program_that_ends_where_an_import_fails_does_not_go_on(end: str) -> None:
    start = "try:\n    import kernels\nexcept ImportError:\n    print('none')\n"
    assert is_later("kernels.py", main=start, kernels="import cupy\n")
    assert not is_later("kernels.py", main=f"{start}    {end}\n", kernels="import cupy\n")


@pytest.mark.parametrize(
    "code",
    [
        "train(Net())", "for x in y:\n    pass", "net = Net()", "with x:\n    pass", "while x:\n    pass",
        "if x:\n    train()", "try:\n    train()\nexcept ValueError:\n    pass",
    ],
)  # fmt: skip
def test_a_script_without_a_guard_may_be_a_program(code: str) -> None:
    resume = "def resume():\n    from train import net\n"
    assert is_later("train.py", evaluate=resume, train="'''Train.'''\nimport cupy\nEPOCHS = 3\n")
    assert not is_later("train.py", evaluate=resume, train=f"import cupy\n{code}\n")


def test_a_module_of_a_package_may_set_up_what_it_offers() -> None:
    within = "def f():\n    import pkg.a\n"
    assert is_later("pkg/a.py", pkg__b=within, pkg__a="import cupy\nlog = make()\nlog.setLevel(3)\n")
    assert not is_later("pkg/a.py", pkg__b=within, pkg__a="import cupy\nmain()\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project.scripts]\nx = 'app.cli:main'\n"),
        ("pyproject.toml", "[project.entry-points.'a.b']\nx = 'app.cli'\n"),
        ("pyproject.toml", "[tool.poetry.scripts]\nx = 'app.cli:main'\n"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    x = app.cli:main\n"),
        ("setup.py", "setup(entry_points={'console_scripts': ['x = app.cli:main']})\n"),
        ("setup.py", "setup(entry_points='[console_scripts]\\nx = app.cli:main')\n"),
    ],
)
def test_an_entry_point_is_a_program(name: str, text: str) -> None:
    files = {
        "app/__init__.py": b"",
        "app/cli.py": b"import cupy\n",
        "util.py": b"def f():\n    import app.cli\n",
    }
    assert later_code(files).is_loaded_later("app/cli.py")
    files[name] = text.encode()
    assert not later_code(files).is_loaded_later("app/cli.py")


@pytest.mark.parametrize("text", ["[project", "[project]\nscripts = 3\n", "\xff", "[project.scripts]\nx = ':'\n"])
@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "setup.py"])
def test_settings_without_readable_entry_points(name: str, text: str) -> None:
    files = {"kernels.py": b"import cupy\n", "a.py": b"def f():\n    import kernels\n", name: text.encode("latin-1")}
    assert later_code(files).is_loaded_later("kernels.py")


def test_what_an_entry_point_imports_when_it_is_called() -> None:
    files = {"kernels.py": b"import cupy\n", "cli.py": b"def main():\n    import kernels\n"}
    assert later_code(files).is_loaded_later("kernels.py")
    files["pyproject.toml"] = b"[project.scripts]\nx = 'cli:main'\n"
    assert not later_code(files).is_loaded_later("kernels.py")


def test_files_that_only_import_each_other_are_not_loaded_later() -> None:
    files = {"lib__a": "import lib.b\nimport cupy\n", "lib__b": "import lib.a\n"}
    assert not is_later("lib/a.py", **files)
    assert is_later("lib/a.py", **files, c="def f():\n    import lib.b\n")
    assert not is_later("lib/a.py", lib__a="import lib.b\n", lib__b="def f():\n    import lib.a\n")


@pytest.mark.parametrize(
    ("main", "later"),
    [
        ("from runner import go\n", True),
        ("from runner import go\ngo()\n", False),
        ("from runner import go as start\nstart()\n", False),
        ("import runner\nrunner.go()\n", False),
        ("from runner import *\ngo()\n", False),
        ("from again import go\ngo()\n", False),
        ("from runner import go\n@go\ndef f():\n    pass\n", False),
        ("from runner import go\ndef main():\n    go()\nmain()\n", False),
        ("def main():\n    from runner import go\n    go()\nif __name__ == '__main__':\n    main()\n", False),
        ("from runner import go\ndef main():\n    go()\n", True),
        ("def go():\n    pass\ngo()\n", True),
    ],
)
def test_calls_of_other_files_count(main: str, later: bool) -> None:
    files = {"kernels": "import cupy\n", "again": "from runner import go\n", "main": main}
    assert is_later("kernels.py", **files, runner="def go():\n    import kernels\n") is later
    assert is_later("kernels.py", **files, runner="def go(x):\n    if x:\n        import kernels\n")


def test_a_file_is_parsed_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 12
    parsed: list[str] = []

    def counted(text: str) -> Any:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(file, "parse", counted)
    every = "".join(f"import m{number}\n" for number in range(count))
    files = {f"m{number}.py": f"{every}N = {number}\n".encode() for number in range(count)}
    files["main.py"] = b"def f():\n    import m1\n"
    later = later_code(files)
    assert all(later.is_loaded_later(path) for path in files if path != "main.py")
    assert sorted(parsed) == sorted(source.decode() for source in files.values())


def finding(line: int, severity: Severity) -> Finding:
    return Finding(Span(line, 0, line, 4), "package-x", FindingKind.UNSUPPORTED, "x", "Use y.", severity)


@pytest.mark.parametrize(
    ("path", "source", "call", "apart"),
    [
        ("setup.py", f"{SETUP}from setuptools import setup\n", "setup()\n", True),
        ("setup.py", "import torch\nfrom distutils.core import setup\n", "setup()\n", True),
        ("setup.py", f"{SETUP}\n", "setup()\nmake()\n", False),
        ("setup.py", f"{SETUP}\n", "", False),
        ("setup.py", "import torch\n\n", "setup()\n", False),
        ("pkg/build.py", f"{SETUP}\n", "setup()\n", False),
    ],
)
def test_what_a_build_script_does_not_call(path: str, source: str, call: str, apart: bool) -> None:
    files = {path: f"{source}def make():\n    return CUDAExtension('x', ['x.cu'])\n\n{call}".encode()}
    for severity in Severity:
        assert later_code(files).holds(path, finding(4, severity)) is apart


def test_a_setup_module_that_is_imported_is_not_a_build_script() -> None:
    files = {"utils/setup.py": f"{SETUP}def prepare():\n    torch.cuda.cudart()\nsetup()\n".encode()}
    assert later_code(files).holds("utils/setup.py", finding(3, Severity.CHANGE))
    files["train.py"] = b"from utils.setup import prepare\nprepare()\n"
    assert not later_code(files).holds("utils/setup.py", finding(3, Severity.CHANGE))


CUPY = "import cupy\n\nX = 3\n"
PROJECTS = {
    "an exit": {
        "main.py": "import sys\ntry:\n    import kernels\nexcept ImportError:\n    sys.exit('needs CUDA')\n",
        "kernels.py": CUPY,
    },
    "a script": {
        "train.py": f"{CUPY}for step in range(X):\n    cupy.zeros(step)\n",
        "evaluate.py": "def resume():\n    from train import X\n",
    },
    "a command": {
        "pyproject.toml": "[project]\nname = 'app'\n[project.scripts]\napp = 'app.cli:main'\n",
        "app/__init__.py": "",
        "app/cli.py": f"{CUPY}\ndef main():\n    cupy.zeros(X)\n",
        "util.py": "def f():\n    import app.cli\n",
    },
    "a circle": {"lib/a.py": f"import lib.b\n{CUPY}", "lib/b.py": "import lib.a\n"},
    "a call": {
        "main.py": "from runner import go\ngo()\n",
        "runner.py": "def go():\n    import kernels\n",
        "kernels.py": CUPY,
    },
}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_that_is_blocked(tmp_path: Path, name: str) -> None:
    for path, text in PROJECTS[name].items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    result, _ = check_project((tmp_path,), Settings("2.7.1"), CheckChoice())
    assert result.readiness.verdict is Verdict.BLOCKED


def test_what_a_build_script_does_not_call_is_apart(tmp_path: Path) -> None:
    make = "def make():\n    return CUDAExtension('x', ['x.cu'])\n"
    (tmp_path / "setup.py").write_text(f"from setuptools import setup\n{SETUP}\n{make}\nsetup(name='x')\n")
    result, _ = check_project((tmp_path,), Settings("2.7.1"), CheckChoice())
    found = [(found.line, found.part) for file in result.files for found in file.findings]
    assert (5, Part.DEFERRED) in found


def test_what_a_module_called_setup_holds_is_reported(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("import torch\n\ndef prepare():\n    torch.cuda.cudart()\n")
    (tmp_path / "train.py").write_text("from setup import prepare\nprepare()\n")
    result, _ = check_project((tmp_path,), Settings("2.7.1"), CheckChoice())
    found = [(found.line, found.part) for file in result.files for found in file.findings]
    assert (4, Part.PROGRAM) in found
