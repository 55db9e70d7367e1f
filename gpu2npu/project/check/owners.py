"""Whom a repository belongs to: what its CODEOWNERS says of every file, or else the owner of its remote."""

from __future__ import annotations

import re
from pathlib import Path

# Where GitHub and GitLab look for it, in their order.
_CODEOWNERS = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
_EVERY_FILE = ("*", "/*", "**", "/**", "/")
# `url = git@host:owner/name.git` or `url = https://host/owner/name`; the owner may have several parts.
_REMOTE = re.compile(r"^\s*url\s*=\s*(?:\w+://[^/\s]+/|[^/\s:]+:)/?(?P<owner>[^\s]+)/[^/\s]+$", re.MULTILINE)
_MAX_CHARACTERS = 1_000_000


def owner_of(repository: Path) -> str:
    """The first owner of all files, such as "@org/team", or that in the address of its remote; "" if neither is."""
    for place in _CODEOWNERS:
        lines = [line.split("#", 1)[0].split() for line in _read(repository / place).splitlines()]
        owners = [words[1] for words in lines if len(words) > 1 and words[0] in _EVERY_FILE]
        if owners:
            return owners[-1]  # the last line that fits counts
    remote = _REMOTE.search(_read(repository / ".git" / "config"))
    return remote["owner"] if remote is not None else ""


def _read(file: Path) -> str:
    """The text of a file, "" where there is none."""
    try:
        if not file.is_file():
            return ""
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MAX_CHARACTERS)
    except OSError:
        return ""
