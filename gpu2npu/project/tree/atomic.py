"""Writing a file so that whoever reads it finds the old content or the new, and never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write_atomically(file: Path, content: bytes) -> None:
    """Makes the folder if it is missing. What is not an ordinary file, such as /dev/stdout, is written as it is.

    Raises OSError, and leaves nothing then.
    """
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.path.realpath(file))
    scratch = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        scratch.write_bytes(content)
        if target.exists():
            scratch.chmod(target.stat().st_mode & 0o777)
        scratch.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
