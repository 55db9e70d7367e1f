"""Views in C++ where a compiler is there: through Python, a view takes five times as long as on the CPU.

The library is built in the background at first use and is found by later processes of the same PyTorch. Until then,
without a compiler, or with GPU2NPU_NATIVE=0, `memory/storage_ops.py` calls the same kernels of PyTorch.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("views.cpp")
OPERATORS = ("as_strided", "view", "_reshape_alias", "unfold")
_AGAIN = 86_400  # seconds after which a build that did not end well is tried again


def load() -> tuple[str, ...]:
    """Load the library; the operators that it computes, or none where there is no library yet."""
    if os.environ.get("GPU2NPU_NATIVE") == "0":
        return ()
    with contextlib.suppress(OSError, RuntimeError):  # no home, no place to write, or a library that does not load
        library = place()
        if library.is_file():
            torch.ops.load_library(library)
            return OPERATORS
        build(library)
    return ()


def place() -> Path:
    """The library's file, in the user's cache: another for each PyTorch and each version of the source.

    Raises:
        RuntimeError: The user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    made_of = (torch.__version__, torch.version.git_version, platform.machine(), SOURCE.read_text(encoding="utf-8"))
    return folder / "gpu2npu" / f"views-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.so"


def build(library: Path) -> subprocess.Popen[bytes] | None:
    """Begin to build the library, unless another process has, or there is no compiler.

    Raises:
        OSError: There is no place to write.
    """
    compiler = shutil.which(os.environ.get("CXX") or "c++")
    if compiler is None:
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
    root, part = Path(torch.__file__).parent, library.with_suffix(".part")
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    command = [compiler, "-O1", "-shared", "-fPIC", "-std=c++20", abi, f"-I{root / 'include'}", str(SOURCE)]
    command += ["-o", str(part), f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
    script = 'begun="$1" part="$2" library="$3"; shift 3; nice "$@" && mv "$part" "$library" && rm "$begun"'
    return subprocess.Popen(
        ["sh", "-c", script, "sh", begun, part, library, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
