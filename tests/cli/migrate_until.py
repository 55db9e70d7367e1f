"""Run by test_kill.py: migrations that a signal meets at a chosen operation on the file system.

Reads lines of JSON, [arguments of gpu2npu, operation, signal]. Answers each with its exit code (negative for a signal
that ended it), the number of operations and what it wrote to stderr. Each migration runs in a child of this process,
which has everything loaded.
"""

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

from gpu2npu.cli.main import main

CHANGES = {"open", "os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.utime", "ctypes.dlsym"}


def load() -> None:
    """Migrate a file, so that what is imported and read for that is there in every child."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text("import torch\ntorch.zeros(1).cuda()\n")
        output = Path(folder, "output")
        sys.argv = ["gpu2npu", "-i", str(script), "-o", str(output), "-v", "2.1.0", "-j", "1", "-q"]
        with contextlib.suppress(SystemExit):
            main()
        assert output.is_dir()


def migrate(arguments: list[str], operation: int, number: int, report: int) -> None:
    """Migrate, and send the signal to this process when it is about to do its n-th operation, counted from 1."""
    process = os.getpid()
    count = 0

    def watch(event: str, _: object) -> None:
        nonlocal count
        if event in CHANGES and os.getpid() == process:
            count += 1
            if count == operation:
                os.kill(process, number)

    sys.addaudithook(watch)
    sys.argv = ["gpu2npu", *arguments]
    try:
        main()
    finally:
        os.pwrite(report, str(count).encode(), 0)


def run(arguments: list[str], operation: int, number: int) -> tuple[int, int, str]:
    with tempfile.TemporaryFile() as report, tempfile.TemporaryFile() as errors:
        if not (child := os.fork()):
            os.dup2(errors.fileno(), sys.stderr.fileno())
            migrate(arguments, operation, number, report.fileno())
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), int(report.read() or 0), errors.read().decode()


if __name__ == "__main__":
    load()
    for line in sys.stdin:
        print(json.dumps(run(*json.loads(line))), flush=True)
