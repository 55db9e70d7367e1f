"""Prepares a command to see the emulated NPU, by its environment and by the Python that runs it.

Starts nothing itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import Distribution
from pathlib import Path

from gpu2npu.emulator.machine import filesystem

SITE = Path(__file__).parent / "site"  # holds the emulator's torch_npu
APEX = Path(__file__).parent / "apex_site"  # holds Ascend's apex, which a machine has only where a user built it
REQUIREMENTS = ("torch", "numpy", "ml_dtypes")  # the extra `emulator` in pyproject.toml
NPUS = 8  # cards of one Atlas 800 server

_OURS = frozenset({"GPU2NPU_NPUS", "GPU2NPU_STRICT", "GPU2NPU_OP_REPORT", "GPU2NPU_TORCH_NPU"})
_OF_SHAPES = frozenset(
    {"GPU2NPU_SHAPES_ONLY", "GPU2NPU_VALUES", "GPU2NPU_PLAN", "GPU2NPU_PLAN_STEPS", "GPU2NPU_CHECKPOINTS"}
)

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit codes, as a shell gives them


@dataclass(frozen=True)
class Launch:
    """A command ready for `os.execve`: the program's path, its argument vector and its whole environment."""

    program: str
    argv: tuple[str, ...]
    environment: dict[str, str]


class LaunchError(RuntimeError):
    """A command that cannot be started: one sentence for the user, and the exit code a shell would give."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def emulating(
    environment: Mapping[str, str],
    *,
    python: str,
    npus: int = NPUS,
    soc: str | None = None,
    strict: bool = False,
    op_report: Path | None = None,
    torch_npu: str | None = None,
    shapes_only: bool = False,
    values: Sequence[str] = (),
    plan: Path | None = None,
    steps: int | None = None,
    write_checkpoints: bool = False,
) -> dict[str, str]:
    """The environment in which `import torch` and `import torch_npu` find the emulated NPU, in every child too.

    `python`'s folder comes first on PATH, so that the `python` and `torchrun` of a shell script are its neighbours,
    whether a virtual environment is activated or not; then that of the emulated machine's `npu-smi`. The ASCEND
    variables of the toolkit's set_env.sh name the emulated machine's files unless they are set. `soc` names the chip,
    which GPU2NPU_SOC does otherwise. `torch_npu` is the version of the
    torch_npu release to imitate. `shapes_only` leaves the arithmetic out, and `values` is what the host then reads,
    `loss=1.0` (see `shapes.values`); records for the forecast come into the folder `plan`, and the program ends after
    `steps` steps of an optimizer; checkpoints are written only where `write_checkpoints` says so. With GPU2NPU_APEX=1
    programs find Ascend's apex.
    ASCEND_RT_VISIBLE_DEVICES stays as the user set it: the emulated device reads it as the real one does. What an outer
    run has set does not leak into this one. OPENBLAS_NUM_THREADS is 1
    unless set: the kernels cut large products up themselves, and BLAS threads that spin take the cores of other ranks.
    OMP_WAIT_POLICY has torch's idle CPU threads sleep: spinning, they take the core that the next one needs.
    """
    result = {name: value for name, value in environment.items() if name not in _OURS | _OF_SHAPES}
    result.setdefault("OPENBLAS_NUM_THREADS", "1")
    result.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    folders = environment.get("PYTHONPATH")
    if environment.get("GPU2NPU_APEX") == "1":
        folders = _first(str(APEX), folders)
    result["PYTHONPATH"] = _first(str(SITE), folders)
    path = _first(str(filesystem.PROGRAMS), environment.get("PATH", os.defpath))
    result["PATH"] = _first(str(Path(python).parent), path)
    result["GPU2NPU_PYTHON"] = python
    for name, value in filesystem.toolkit_variables().items():
        result.setdefault(name, value)
    result["GPU2NPU_NPUS"] = str(npus)
    if soc is not None:
        result["GPU2NPU_SOC"] = soc
    if strict:
        result["GPU2NPU_STRICT"] = "1"
    if op_report is not None:
        result["GPU2NPU_OP_REPORT"] = str(op_report.absolute())
    if torch_npu is not None:
        result["GPU2NPU_TORCH_NPU"] = torch_npu
    if shapes_only:
        result["GPU2NPU_SHAPES_ONLY"] = "1"
        result["GPU2NPU_VALUES"] = ";".join(values)
        result["GPU2NPU_CHECKPOINTS"] = "write" if write_checkpoints else "keep"
    if plan is not None:
        result["GPU2NPU_PLAN"] = str(plan)
        result["GPU2NPU_PLAN_STEPS"] = str(steps or 0)
    return result


def prepare(command: Sequence[str], environment: Mapping[str, str], *, python: str) -> Launch:
    """Find the program that a command, as the user typed it, means in an environment made by `emulating`.

    `python` runs scripts (`x.py`), `-m module`, `-c code` and `python`. Every other command runs as it is.

    Raises:
        LaunchError: The command's program or script does not exist or is not executable.
    """
    first = command[0]
    if first.endswith(".py") and not Path(first).is_file():
        raise LaunchError(f"{first}: there is no such script", NOT_FOUND)
    if first.endswith(".py") or first in ("-m", "-c"):
        return Launch(python, (python, *command), dict(environment))
    if first in ("python", "python3"):
        return Launch(python, (python, *command[1:]), dict(environment))
    program = shutil.which(first, path=environment["PATH"])
    if program is None and os.sep in first and Path(first).is_file():
        raise LaunchError(f"{first} is not executable: run `chmod +x {first}`, or put `bash` before it", NOT_EXECUTABLE)
    if program is None:
        raise LaunchError(f"{first}: there is no such command on PATH", NOT_FOUND)
    return Launch(program, tuple(command), dict(environment))


def missing_requirements(search_path: Iterable[str]) -> tuple[str, ...]:
    """The packages the emulator needs that are nowhere on `search_path`. Imports none of them."""
    folders = list(search_path)
    return tuple(name for name in REQUIREMENTS if PathFinder.find_spec(name, folders) is None)


def real_torch_npu(search_path: Iterable[str]) -> Path | None:
    """Return the place of an installed torch_npu that is not the emulator's, or None. Imports nothing."""
    folders = [folder for folder in search_path if Path(folder).resolve() != SITE.resolve()]
    spec = PathFinder.find_spec("torch_npu", folders)
    if spec is not None and spec.origin is not None:  # a folder that merely bears the name has no origin
        return Path(spec.origin).parent
    for distribution in Distribution.discover(name="torch_npu", path=folders):
        return Path(str(distribution.locate_file("torch_npu")))
    return None


def _first(folder: str, folders: str | None) -> str:
    """A search path that begins with `folder`. An empty entry would mean the current directory, so none is added."""
    rest = [entry for entry in folders.split(os.pathsep) if entry != folder] if folders else []
    return os.pathsep.join([folder, *rest])
