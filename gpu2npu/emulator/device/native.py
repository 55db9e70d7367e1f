"""Small operators and convolutions of images in C++, where a compiler is there: Python takes several times as long.

The library is built in the background at first use and is found by later processes of the same Python, NumPy and
PyTorch. Until then, without a compiler or Python's headers, or with GPU2NPU_NATIVE=0, Python does the same:
`tensor.py`, `memory/`, `dispatch/uniform.py`, `dispatch/cube.py`, and in `kernels` what asks `parallel.native`. A build
removes those that nobody has loaded for a week.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator import shapes

SOURCE = Path(__file__).with_name("native.cpp")
HEADERS = tuple(SOURCE.with_name(f"{each}.h") for each in ("convolutions", "norms", "pointwise"))
VIEWS = ("as_strided", "view", "_reshape_alias", "unfold")
FACTORIES = ("empty.memory_format", "empty_strided", "clone")
PYTHON_KEY = "PrivateUse3"  # where the library finds what Python does for an operator that both have
_AGAIN = 86_400  # seconds after which a build that did not end well is tried again
_UNUSED = 7 * 86_400  # seconds after which a library that nobody has loaded is removed


building: subprocess.Popen[bytes] | None = None  # the build that `load` has begun


def load() -> Any:
    """The library, or None where there is none yet: then its build begins."""
    global building
    if os.environ.get("GPU2NPU_NATIVE") == "0":
        return None
    with contextlib.suppress(OSError, RuntimeError, ImportError):  # no home, no place, or it does not load
        library = place()
        if library.is_file():
            loader = importlib.machinery.ExtensionFileLoader("native", str(library))
            module = importlib.util.module_from_spec(
                importlib.machinery.ModuleSpec("native", loader, origin=str(library))
            )
            loader.exec_module(module)
            with contextlib.suppress(OSError):
                os.utime(library)
            return module
        building = build(library, "nice")
    return None


def place() -> Path:
    """The library's file, in the user's cache: another for each of what it is made of.

    Raises:
        RuntimeError: The user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    python = sys.implementation.cache_tag, platform.machine()
    sources = (each.read_text("utf-8") for each in (SOURCE, *HEADERS))
    made_of = (*python, np.__version__, torch.__version__, torch.version.git_version, *sources)
    return folder / "gpu2npu" / f"native-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.so"


def build(library: Path, *before: str) -> subprocess.Popen[bytes] | None:
    """Begin to build the library, unless another process has, or there is no compiler. `before` runs the compiler.

    Raises:
        OSError: There is no place to write.
    """
    compiler = shutil.which(os.environ.get("CXX") or "c++")
    headers = Path(sysconfig.get_path("include"))
    if compiler is None or not (headers / "Python.h").is_file():
        return None
    library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    begun = library.with_suffix(".begun")
    with contextlib.suppress(FileNotFoundError):
        if time.time() - begun.stat().st_mtime > _AGAIN:
            begun.unlink()
    try:
        begun.touch(exist_ok=False)
    except FileExistsError:
        return None
    _remove_unused(library.parent)
    root, part = Path(torch.__file__).parent, library.with_suffix(".part")
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    folders = headers, np.get_include(), root / "include", root / "include/torch/csrc/api/include"
    command = [
        *before,
        compiler,
        "-O1",
        "-ftree-vectorize",
        "-shared",
        "-fPIC",
        "-std=c++20",
        abi,
        *(f"-I{each}" for each in folders),
    ]
    command += [str(SOURCE), "-o", str(part), f"-L{root / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    script = 'begun="$1" part="$2" library="$3"; shift 3; "$@" && mv "$part" "$library" && rm "$begun"'
    return subprocess.Popen(
        ["sh", "-c", script, "sh", begun, part, library, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _remove_unused(folder: Path) -> None:
    """Remove what other versions have built; a process that has loaded one keeps it."""
    for each in (*folder.glob("*.so"), *folder.glob("*.part"), *folder.glob("*.begun")):
        with contextlib.suppress(OSError):
            if time.time() - each.stat().st_mtime > _UNUSED:
                each.unlink()


library: Any = load()
# The part that has the memory and its account; a shapes-only run keeps its own.
account: Any = None if shapes.is_on() else library
