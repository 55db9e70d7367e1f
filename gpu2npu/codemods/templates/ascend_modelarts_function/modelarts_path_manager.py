"""Gives the program a local path for each path that path_mapping_config.py maps.

What lies in OBS is copied to the cache when it is first asked for, once on each machine, and what the program writes
there is copied back when it ends. That takes moxing, which ModelArts has.
"""

import atexit
import fcntl
import hashlib
import os

from .path_mapping_config import CACHE, PATH_MAPPING

_REMOTE = ("obs://", "s3://")
_local = {}  # by the key of the mapping
_written = set()


def mapped(path, writes=False):
    """The path to use for a path of the program; anything else (a file object, None) as it is.

    `writes` says that the program makes or changes what is there.
    """
    if not isinstance(path, (str, os.PathLike)):
        return path
    name = os.path.normpath(os.fsdecode(path))
    keys = [key for key in PATH_MAPPING if _below(name, os.path.normpath(key)) is not None]
    if not keys:
        return path
    key = max(keys, key=lambda each: len(os.path.normpath(each)))
    if writes and PATH_MAPPING[key].startswith(_REMOTE) and not _written:
        atexit.register(_upload)
    if writes:
        _written.add(key)
    below = _below(name, os.path.normpath(key))
    root = _place(key)
    return os.path.join(root, below) if below else root


def _below(name, folder):
    """The part of a path under a folder; None if it is not under it."""
    if name == folder:
        return ""
    return name[len(folder) :].lstrip("/") if name.startswith(folder.rstrip("/") + "/") else None


def _place(key):
    """The local folder or file that a key stands for, filled from OBS if that is where it is."""
    target = PATH_MAPPING[key]
    if not target.startswith(_REMOTE):
        return target
    if key not in _local:
        os.makedirs(CACHE, exist_ok=True)
        name = hashlib.sha256(target.encode()).hexdigest()[:16] + "-" + os.path.basename(target.rstrip("/"))
        local = os.path.join(CACHE, name)
        # One process of the machine copies; the others wait for it.
        with open(f"{local}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(f"{local}.done"):
                _download(target, local)
                open(f"{local}.done", "w").close()
        _local[key] = local
    return _local[key]


def _download(target, local):
    files = _moxing().file
    if not files.exists(target):  # the program is going to write it
        if "." not in os.path.basename(target.rstrip("/")):
            os.makedirs(local, exist_ok=True)
    elif files.is_directory(target):
        files.copy_parallel(target, local)
    else:
        files.copy(target, local)


def _upload():
    for key in sorted(_written):
        target = PATH_MAPPING[key]
        local = _local.get(key)
        if not target.startswith(_REMOTE) or local is None or not os.path.exists(local):
            continue
        copy = _moxing().file.copy_parallel if os.path.isdir(local) else _moxing().file.copy
        copy(local, target)


def _moxing():
    try:
        import moxing
    except ImportError as error:
        raise RuntimeError(
            "ascend_modelarts_function/path_mapping_config.py maps paths to OBS, which takes the package moxing of "
            "ModelArts; elsewhere map them to local folders."
        ) from error
    return moxing
