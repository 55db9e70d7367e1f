"""Files that nothing loads at once, and what blocks in them."""

import textwrap

import pytest

from gpu2npu.project.check.later import LoadedLater, is_never_run
from gpu2npu.project.tree.parts import parts_of

KERNELS = "pkg/kernels/__init__.py"


def is_later(path: str, **sources: str) -> bool:
    """`sources` have `__` for the slashes of their paths."""
    files = {f"{name.replace('__', '/')}.py": textwrap.dedent(text).encode() for name, text in sources.items()}
    files |= {
        "pkg/__init__.py": b"",
        KERNELS: b"from pkg.kernels.ops import run\n",
        "pkg/kernels/ops.py": b"import x\n",
    }
    return LoadedLater(files, parts_of(files))(path)


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
def test_the_importers_tell(path: str, importer: str, later: bool) -> None:
    assert is_later(path, pkg__model=importer) is later


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


def test_a_package_of_its_own_that_is_built_by_hand() -> None:
    setup = "setup(ext_modules=[CUDAExtension('x', ['x.cu'])])\n"
    assert is_later("pkg/kernels/setup.py", pkg__kernels__setup=setup, pkg__a="def f():\n    import pkg.kernels\n")
    assert not is_later("pkg/kernels/setup.py", pkg__kernels__setup=setup, pkg__a="import pkg.kernels\n")
    assert not is_later("setup.py", setup=setup)


@pytest.mark.parametrize(
    ("path", "call", "never"),
    [("setup.py", "", True), ("setup.py", "make()\n", False), ("pkg/build.py", "", False)],
)
def test_what_a_setup_script_does_not_call(path: str, call: str, never: bool) -> None:
    source = f"def make():\n    return CUDAExtension('x', ['x.cu'])\n\n{call}".encode()
    assert is_never_run(path, source, 2) is never
