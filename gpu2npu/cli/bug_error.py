"""An exception that no one expected, as the user sees it."""

from __future__ import annotations

import errno


class BugError(Exception):
    """An exception that no one expected: reported in one sentence, its traceback in a file if asked for."""

    def __init__(self, error: Exception, traceback_wanted: bool) -> None:
        where = "run again with --log-level debug for a traceback"
        if traceback_wanted:
            where = f"the traceback is in '{_write_traceback(error)}'"
        super().__init__(f"gpu2npu itself failed ({type(error).__name__}: {error}); {where}, and please report this.")


def _write_traceback(error: Exception) -> str:
    """The output, with its log, is removed when a migration fails, so the traceback goes to a temporary file."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="gpu2npu-", suffix=".log", delete=False, encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    return file.name


def is_of_stdout(error: Exception) -> bool:
    """Return whether standard output is on a full disk: an error with another file is an OutputError by now."""
    return isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None
