"""The files that scripts look for around an NPU: below /usr/local/Ascend or /opt/Ascend, and the programs on PATH.

They are in `root/`. A command sees them where a script expects them through a mount namespace of its own (Linux), so
that nothing on the machine changes; where that is not permitted, a symbolic link made once does the same. In the home
folder, where a user without root installs CANN, they need an empty folder while the command runs: what covers the home
folder itself would lose what a program writes there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent / "root"
PROGRAMS = ROOT / "usr/local/bin"
ASCEND = ROOT / "usr/local/Ascend"
EXPECTED = (Path("/usr/local/Ascend"), Path("/opt/Ascend"))
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


def show_ascend_files(home: Path | None = None) -> list[Path]:
    """Let this process, and what it becomes, see Ascend's files; return the places where they are not to be seen.

    Args:
        home: The folder below the home folder where a program looks for them; made if it is missing, and removed when
            this process and its children have ended.
    """
    places = [place for place in (*EXPECTED, *([home] if home else [])) if not _has_files(place)]
    possible = [place for place in places if place != home and place.parent.is_dir()]
    if places and sys.platform.startswith("linux") and _permitted(possible):
        if home is not None and home in places and (home.exists() or _make_for_now(home)):
            possible.append(home)
        with contextlib.suppress(OSError):  # of the last, which could not be tried
            _mount_ascend(possible)
    return [place for place in places if not _has_files(place)]


def _has_files(place: Path) -> bool:
    try:
        return place.exists() and (not place.is_dir() or any(place.iterdir()))
    except OSError:  # what is there is not for this user
        return True


def _make_for_now(folder: Path) -> bool:
    """Make an empty folder, and a process that removes it when this one, which it outlives, has ended."""
    try:
        folder.mkdir()
        ours, theirs = os.pipe()
    except OSError:
        return False
    os.set_inheritable(theirs, True)  # what this process becomes holds it
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.setsid()
            os.closerange(0, ours)
            os.closerange(ours + 1, 1 << 16)
            os.read(ours, 1)  # until all have closed the other end
            with contextlib.suppress(OSError):
                folder.rmdir()
        os._exit(0)
    os.waitpid(child, 0)
    os.close(ours)
    return True


def _permitted(places: Sequence[Path]) -> bool:
    """Return whether mounting works here, which a child tries: a failure half-way would leave this process changed."""
    child = os.fork()
    if child == 0:
        try:
            _mount_ascend(places)
        except BaseException:  # the child of a fork must leave by _exit, whatever happens
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _mount_ascend(places: Sequence[Path]) -> None:
    """Show the emulated machine's files at `places`.

    Where there is no folder, its parent is covered by one in memory that binds all that is there.
    """
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

    mount("none", "/", None, _RECURSIVE | _PRIVATE)
    for place in places:
        if place.is_dir():
            mount(str(ASCEND), str(place), None, _BIND | _RECURSIVE)
            continue
        folder = place.parent
        before = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        names = [entry.name for entry in folder.iterdir()]
        mount("gpu2npu", str(folder), "tmpfs", 0)
        for name in names:
            _repeat(Path(f"/proc/self/fd/{before}", name), folder / name, mount)
        place.mkdir()
        mount(str(ASCEND), str(place), None, _BIND | _RECURSIVE)
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
