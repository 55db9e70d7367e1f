"""The tree that every contestant works on, and what is in it."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

# A large PyTorch project that none of us wrote. Pinned, with the wheel's platform, so that numbers can be compared.
PROJECT = "megatron-core"
VERSION = "0.16.1"
PLATFORM = ["--only-binary=:all:", "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"]


@dataclass(frozen=True)
class Size:
    """The amount of Python in a tree; `lines` counts the last line too when no newline ends it."""

    files: int
    lines: int


def fetch_tree(folder: Path) -> Path:
    """The unpacked wheel of the benchmark project below `folder`; downloaded when it is not there yet.

    Raises subprocess.CalledProcessError when pip cannot download it.
    """
    tree = folder / f"{PROJECT}-{VERSION}"
    if tree.is_dir():
        return tree
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *PLATFORM, "--dest", str(folder)]
    subprocess.run([*pip, f"{PROJECT}=={VERSION}"], check=True)
    wheel = next(folder.glob(f"{PROJECT.replace('-', '_')}-{VERSION}-*.whl"))
    unfinished = tree.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unfinished)
    unfinished.rename(tree)
    return tree


def measure(tree: Path) -> Size:
    """The number of `.py` files in `tree` and of their lines."""
    contents = [path.read_bytes() for path in sorted(tree.rglob("*.py"))]
    return Size(len(contents), sum(len(content.splitlines()) for content in contents))


def copy_without_match(tree: Path, target: Path) -> list[str]:
    """Copies `tree` to `target` without the Python files that hold a `match` statement, and names those.

    PaConvert 3.3.1 stops at the first such file, so it gets a tree without them.
    """
    shutil.copytree(tree, target)
    dropped = []
    for path in sorted(target.rglob("*.py")):
        if not _is_read_by_paconvert(path.read_bytes()):
            path.unlink()
            dropped.append(path.relative_to(target).as_posix())
    return dropped


def _is_read_by_paconvert(source: bytes) -> bool:
    try:
        return not any(isinstance(node, ast.Match) for node in ast.walk(ast.parse(source)))
    except SyntaxError:
        return False
