"""The files that scripts look for around an NPU: below /usr/local/Ascend, and the programs on PATH.

They lie in `root/`. A command sees /usr/local/Ascend where a script expects it through a mount namespace of its own
(Linux), so that nothing on the machine changes; where that is not permitted, a symbolic link made once does the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent / "root"
PROGRAMS = ROOT / "usr/local/bin"
ASCEND = ROOT / "usr/local/Ascend"
EXPECTED = Path("/usr/local/Ascend")
TOOLKIT = ASCEND / "ascend-toolkit/latest"

# Of <sched.h> and <sys/mount.h>.
_NEW_NAMESPACE, _NEW_USER = 0x00020000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18


def toolkit_variables() -> dict[str, str]:
    """Return the variables that the toolkit's set_env.sh exports, with the paths of the emulated machine."""
    toolkit = str(TOOLKIT)
    return {
        "ASCEND_TOOLKIT_HOME": toolkit,
        "ASCEND_HOME_PATH": toolkit,
        "ASCEND_AICPU_PATH": toolkit,
        "ASCEND_OPP_PATH": f"{toolkit}/opp",
        "TOOLCHAIN_HOME": f"{toolkit}/toolkit",
    }


def show_ascend_files() -> bool:
    """Let this process, and what it becomes, see /usr/local/Ascend; the answer says whether it is there now."""
    if EXPECTED.exists():
        return True
    if not sys.platform.startswith("linux") or not _permitted():
        return False
    try:
        _mount_ascend()
    except OSError:
        return False
    return EXPECTED.exists()


def _permitted() -> bool:
    """Return whether mounting works here, which a child tries: a failure half-way would leave this process changed."""
    child = os.fork()
    if child == 0:
        try:
            _mount_ascend()
        except BaseException:  # the child of a fork must leave by _exit, whatever happens
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _mount_ascend() -> None:
    """Cover /usr/local by a folder in memory that binds all that is there, and the emulated machine's Ascend."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACE) != 0:
        _checked(libc.unshare(_NEW_NAMESPACE | _NEW_USER))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")

    def mount(source: str, target: str, kind: str | None, flags: int) -> None:
        names = (source.encode(), target.encode(), kind.encode() if kind else None)
        _checked(libc.mount(*names, ctypes.c_ulong(flags), b"mode=755" if kind else None))

    local = str(EXPECTED.parent)
    mount("none", "/", None, _RECURSIVE | _PRIVATE)
    before = os.open(local, os.O_RDONLY | os.O_DIRECTORY)
    names = [entry.name for entry in EXPECTED.parent.iterdir()]
    mount("gpu2npu", local, "tmpfs", 0)
    for name in names:
        _repeat(Path(f"/proc/self/fd/{before}", name), EXPECTED.parent / name, mount)
    EXPECTED.mkdir()
    mount(str(ASCEND), str(EXPECTED), None, _BIND | _RECURSIVE)
    os.close(before)


def _repeat(source: Path, target: Path, mount: Callable[[str, str, str | None, int], None]) -> None:
    """Make `target` what `source` is: the same link, file or folder."""
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    if source.is_dir():
        target.mkdir()
    else:
        target.touch()
    mount(str(source), str(target), None, _BIND | _RECURSIVE)


def _checked(status: int) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
