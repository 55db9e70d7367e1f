"""Runs recorded programs in forks of one process that has imported torch, which takes longer than their training.

Reads one job a line, as test_faults.py makes them, and writes their exit codes when all are done, as one line of JSON.
The first argument is how many run at a time.
"""

import atexit
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import numpy as np
import torch  # what the forks share

from gpu2npu.emulator import kernels
from gpu2npu.verify.recording import begin, draws, recorder  # noqa: F401
from gpu2npu.verify.reference import answers, frontend, operators  # noqa: F401


def put_fault(operator: str, body: str) -> None:
    """Replace the kernel of an operator by a function of `right`, `args` and `kwargs` with that body."""
    names = {"np": np}
    exec(f"def wrong(right, *args, **kwargs):\n    {body}", names)
    name = operator if "::" in operator else f"aten::{operator}"
    right = kernels.KERNELS[name]
    kernels.KERNELS[name] = lambda *args, **kwargs: names["wrong"](right, *args, **kwargs)


def run(job: dict) -> None:
    """Be the program; does not return."""
    code, is_module = 1, job["command"][0] == "-m"
    try:
        error = os.open(job["stderr"], os.O_WRONLY | os.O_CREAT)
        os.dup2(error, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.environ.update(job["variables"])
        os.chdir(job["variables"]["GPU2NPU_VERIFY_PROJECT"])
        sys.path[0] = str(Path.cwd())
        sys.argv = job["command"][is_module:]
        if job["kernel"]:
            put_fault(job["operator"], job["kernel"])
        begin.begin()
        if is_module:
            runpy.run_module(job["command"][1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(job["command"][0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()  # a fork has to, as it leaves by os._exit
        atexit._run_exitfuncs()
        os._exit(code if isinstance(code, int) else 1)


def main() -> None:
    at_a_time = int(sys.argv[1])
    kernels.load()
    jobs = [json.loads(line) for line in sys.stdin]
    codes: dict[int, int] = {}
    running: dict[int, int] = {}
    for number, job in enumerate(jobs):
        if len(running) >= at_a_time:
            pid, status = os.wait()
            codes[running.pop(pid)] = os.waitstatus_to_exitcode(status)
        pid = os.fork()
        if not pid:
            run(job)
        running[pid] = number
    while running:
        pid, status = os.wait()
        codes[running.pop(pid)] = os.waitstatus_to_exitcode(status)
    print(json.dumps([codes[number] for number in range(len(jobs))]))


if __name__ == "__main__":
    main()
