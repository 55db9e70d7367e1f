"""Regular expressions that users write: do they compile, and does searching with them end?"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterable

# One search that takes longer than this on a thousand characters would take hours on a source file; one whose time
# grows with the square of the length, as that of `\w+=` does, takes hundredths of it. The clock decides only on a
# system that cannot limit a process's own time: the machine may be busy.
_SECONDS = 1
_CLOCK_SECONDS = None if hasattr(signal, "setitimer") else 30
_TEXT_LENGTH = 1500

# Read by a Python of its own, which can be stopped in the middle of a search: the tries that are written and not ended.
_PROBE = """
import re, signal, sys
pattern = re.compile(sys.stdin.readline().encode().decode('unicode_escape'))
for line in sys.stdin:
    text = line.encode().decode('unicode_escape')
    for end in ('', '\\0', '\\n!'):
        if hasattr(signal, 'setitimer'):
            signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))  # its signal ends the process
        pattern.search(text + end)
"""


def compile_problem(pattern: str) -> str | None:
    """Return why a regular expression cannot be used at all, or None."""
    try:
        re.compile(pattern)
        re.compile(pattern.encode())  # files are searched as bytes first: no \u there
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression ({str(error) or 'nested too deeply'})"
    return None


def search_problem(pattern: str, texts: Iterable[str] = ()) -> str | None:
    """Return why searching with a regular expression that compiles would not end in any useful time, or None.

    It is tried, in a process of its own that is stopped after some seconds, on long texts made of the pattern's own
    words and characters, and on `texts`. Patterns without repetition are not tried.
    """
    if not re.search(r"[*+]|\{\d*,", pattern):
        return None
    lines = [pattern, *(_repeated(part) for part in _parts(pattern)), *texts]
    told = "".join(line.encode("unicode_escape").decode() + "\n" for line in lines)
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(_SECONDS)]
    try:
        ended = subprocess.run(command, input=told.encode(), timeout=_CLOCK_SECONDS, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        pass
    else:
        if ended.returncode == 0:
            return None
    return (
        f"takes more than {_SECONDS} s to search {_TEXT_LENGTH} characters; do not repeat what is repeated inside, as "
        f"in (a+)+, nor the same twice in a row, as in .*.*"
    )


def _parts(pattern: str) -> list[str]:
    """Return the strings that long texts are made of: common ones, and the pattern's own words, letters and signs."""
    unescaped = re.sub(r"\\([A-Za-z0-9])", " ", pattern)
    words = re.findall(r"\w+", unescaped)
    signs = re.findall(r"\W", unescaped)
    common = ["a", "0", "_", " ", "\t", "\n", ".", "a.", "a "]
    letters = [word[0] for word in words]
    return list(dict.fromkeys([*common, *signs, *words, *letters, *(f"aaa{sign}" for sign in signs)]))[:60]


def _repeated(part: str) -> str:
    return (part * (_TEXT_LENGTH // len(part) + 1))[:_TEXT_LENGTH]
