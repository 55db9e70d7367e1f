"""A machine as `gpu2npu doctor` reads it: packages, CANN, driver, NPUs and environment; and a line of the report."""

from __future__ import annotations

import getpass
import json
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gpu2npu.distributions import normalised
from gpu2npu.support.cann import cann_key
from gpu2npu.system import holds

NPU_SMI_SECONDS = 20  # it answers in two, and can hang where the driver does
_PYTHON_SECONDS = 60
_READ_PATHS = "import json, sys; print(json.dumps([sys.version.split()[0], sys.path]))"
# A row of `npu-smi info` for a chip: its number, its name, which is not a number alone, and its health.
_CHIP = re.compile(r"^\|\s*(\d+)\s+([\w-]*[A-Za-z][\w-]*)\s*\|\s*(\w+)\s*\|", re.MULTILINE)


class MachineError(Exception):
    """A machine that cannot be looked at as requested: one sentence for the user."""


class Package(Struct, frozen=True):
    """An installed distribution: its version, and the folder that its modules are in."""

    version: str
    folder: Path


class Toolkit(Struct, frozen=True):
    """A CANN that is installed: its folder, its version ("" where no file states it) and that of its kernels, and the
    architecture that it is for. `kernels` is None where there are none."""

    home: Path
    version: str
    architecture: str
    kernels: str | None

    @property
    def set_env(self) -> Path:
        """The script that sets its environment: that beside `latest`, or its own."""
        script = self.home.parent / "set_env.sh"
        return script if self.home.parent.name == "ascend-toolkit" and script.is_file() else self.home / "set_env.sh"


class NpuSmi(Struct, frozen=True):
    """The answer of `npu-smi info`: its exit code (None where it did not end in time), and its output."""

    code: int | None
    output: str

    @property
    def chips(self) -> list[tuple[int, str, str]]:
        """The number, name and health of each card that it shows."""
        return [(int(number), name, health) for number, name, health in _CHIP.findall(self.output)]


class Machine(Struct, frozen=True):
    """All that the checks are about. Paths in it are below `root`, which is "/" but for tests. `python` is the version
    of the Python whose `packages` these are, by normalised name; `processes` the limit of `ulimit -u`, None for none.
    """

    root: Path
    environment: Mapping[str, str]
    architecture: str
    user: str
    python: str
    packages: Mapping[str, Package]
    toolkits: tuple[Toolkit, ...]
    npu_smi: NpuSmi | None
    processes: int | None

    @property
    def is_emulated(self) -> bool:
        """Return whether this is a command under `gpu2npu run`."""
        return "GPU2NPU_NPUS" in self.environment

    def at(self, path: str | Path) -> Path:
        """The place of an absolute path of the machine."""
        return self.root / str(path).lstrip("/")

    def shown(self, path: Path) -> str:
        """A path as the machine's own users write it."""
        return f"/{path.relative_to(self.root)}" if path.is_relative_to(self.root) else str(path)

    def version_of(self, name: str) -> str:
        """The version of an installed package without its local part, "" where it is not installed."""
        return self.packages[name].version.partition("+")[0] if name in self.packages else ""

    @property
    def torch_npu(self) -> str:
        """The release of torch_npu, which the emulated machine imitates; "" where it is not installed."""
        return self.environment.get("GPU2NPU_TORCH_NPU", "") or self.version_of("torch-npu")

    @property
    def toolkit(self) -> Toolkit | None:
        """The CANN that programs use: that of ASCEND_HOME_PATH, or else the newest installed one."""
        home = self.environment.get("ASCEND_HOME_PATH")
        if home:
            return next((each for each in self.toolkits if each.home == self.at(home)), None)
        return self.toolkits[0] if self.toolkits else None


def read_machine(
    root: Path = Path("/"), environment: Mapping[str, str] = os.environ, python: Path | None = None
) -> Machine:
    """Read this machine, as the Python `python` sees it, or else this one. Raises MachineError."""
    version, search_path = platform.python_version(), sys.path
    if python is not None:
        version, search_path = _ask(python)
    return Machine(
        root,
        environment,
        platform.machine(),
        _user(),
        version,
        _packages(search_path),
        tuple(_toolkits(root, environment)),
        _npu_smi(environment),
        _process_limit(),
    )


def fields(file: Path) -> dict[str, str]:
    """The `name=value` lines of a file such as version.info, names in small letters; none where it is not there."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def cxx11_abi(library: Path) -> bool | None:
    """Return whether a library of C++ uses std::string of C++11, by the name of a function of PyTorch's c10 in it.

    None where the library, or that name in it, is not there.
    """
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(b"torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_string") >= 0:
                return True
            return False if content.find(b"torchCheckFailEPKcS2_jRKSs") >= 0 else None
    except (OSError, ValueError):  # an empty file cannot be mapped
        return None


def _ask(python: Path) -> tuple[str, list[str]]:
    """The version of another Python and where it looks for modules."""
    try:
        done = subprocess.run(
            [python, "-c", _READ_PATHS], capture_output=True, text=True, timeout=_PYTHON_SECONDS, check=True
        )
        version, search_path = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not run as a Python"
        raise MachineError(f"--python {python}: {reason}") from None
    return str(version), [str(each) for each in search_path]


def _packages(search_path: list[str]) -> dict[str, Package]:
    found: dict[str, Package] = {}
    for each in distributions(path=search_path):
        found.setdefault(
            normalised(each.metadata["Name"] or ""), Package(each.version, Path(str(each.locate_file(""))))
        )
    return found


def _toolkits(root: Path, environment: Mapping[str, str]) -> Iterator[Toolkit]:
    """Yield each CANN: that of ASCEND_HOME_PATH, then those at the usual places, the newest first."""
    found: dict[Path, Toolkit] = {}
    places = ["/usr/local/Ascend", "/opt/Ascend", f"{environment.get('HOME', '/root')}/Ascend"]
    homes = [root / environment["ASCEND_HOME_PATH"].lstrip("/")] if environment.get("ASCEND_HOME_PATH") else []
    for place in (root / each.lstrip("/") for each in places):
        homes += [place / "ascend-toolkit/latest", place / "cann", place / "latest"]
        if holds(place.is_dir):  # of a folder that may not be looked into, glob raises an error
            homes += [*sorted(place.glob("ascend-toolkit/*")), *sorted(place.glob("cann-*"))]
    for home in homes:
        if not holds(home.is_dir) or any(home.samefile(other) for other in found):
            continue
        toolkit = _toolkit(home)
        if toolkit.version or holds((home / "set_env.sh").is_file):
            found[home] = toolkit
    yield from sorted(found.values(), key=lambda each: _order(each.version), reverse=True)


def _toolkit(home: Path) -> Toolkit:
    infos = [*home.glob("*-linux/ascend_*_install.info"), home / "ascend_toolkit_install.info"]
    install = next(filter(None, map(fields, infos)), {})
    version = fields(home / "version.info")
    kernels = fields(home / "opp_kernel/version.info")
    number = kernels.get("version_dir") or kernels.get("version")
    if not kernels and any(home.glob("opp/built-in/op_impl/ai_core/tbe/kernel/ascend*")):  # ops of CANN 8.5 and later
        number = ""
    return Toolkit(home, install.get("version") or version.get("version", ""), install.get("arch", ""), number)


def _order(version: str) -> tuple[int, ...]:
    try:
        return cann_key(version)
    except ValueError:
        return ()


def _npu_smi(environment: Mapping[str, str]) -> NpuSmi | None:
    program = shutil.which("npu-smi", path=environment.get("PATH", os.defpath))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "info"],
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=NPU_SMI_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return NpuSmi(None, "")
    except OSError as error:
        return NpuSmi(126, error.strerror or "")
    return NpuSmi(done.returncode, done.stdout)


def _user() -> str:
    """The name of the user, or the number of one who has none, as containers may be started."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _process_limit() -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if soft == resource.RLIM_INFINITY else soft


Level = Literal["ok", "warning", "error"]


class CheckLine(Struct, frozen=True):
    """The answer of one check: what it is about, how it is, a sentence, and the command that mends it, "" for none."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> CheckLine:
    """A line about what is as it should be, or does not matter."""
    return CheckLine(check, "ok", message)


def warning(check: str, message: str, remedy: str) -> CheckLine:
    """A line about what can fail."""
    return CheckLine(check, "warning", message, remedy)


def error(check: str, message: str, remedy: str) -> CheckLine:
    """A line about what fails."""
    return CheckLine(check, "error", message, remedy)
