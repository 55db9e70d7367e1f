"""The Python calls of a run against a budget: what needs more raises the budget in its own commit, and says why.

Seconds differ from machine to machine; the number of calls does not. `python tests/project/test_calls.py` prints it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGETS = json.loads((ROOT / "tools" / "call_budgets.json").read_text())
# Does the work once, so that all is imported and the tables of rules are made, and once more to count its calls.
PROGRAM = """
import sys, tempfile, threading
from pathlib import Path
sys.path[:0] = {path!r}
import click.testing
from gpu2npu.cli.main import cli
from gpu2npu.project import pool
from gpu2npu.python.facts import reading
from gpu2npu.python.tree import file

pool.can_start_processes = lambda: False
count = 0

def event(frame, kind, argument):
    global count
    count += kind == "call"

def run():
    reading._known.clear()
    file._recent.clear()
    with tempfile.TemporaryDirectory() as out:
        arguments = [each.replace("OUT", out) for each in {arguments!r}]
        result = click.testing.CliRunner().invoke(cli, arguments)
        assert result.exit_code in (0, 1), result.output

run()
threading.setprofile(event)
sys.setprofile(event)
run()
sys.setprofile(None)
print(count)
"""


def calls(*arguments: str) -> int:
    """Return the number of Python calls of a command, in one process."""
    code = PROGRAM.format(path=sys.path, arguments=arguments)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def calls_of(name: str) -> int:
    """Return the calls of the work that a budget is for: `migrate FIXTURE` or `check PACKAGE`, by torch's package."""
    verb, _, project = name.partition(" ")
    if verb == "migrate":
        return calls("-i", str(ROOT / "fixtures" / project), "-o", "OUT/new", "-v", "2.1.0", "-j", "1")
    import torch

    folder = Path(torch.__file__).parent / project
    return calls("check", str(folder), "-v", "2.1.0", "-j", "1", "--no-cache")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budgets are those of Python 3.11")
@pytest.mark.parametrize("name", BUDGETS)
def test_the_calls_of_a_run_are_within_their_budget(name: str) -> None:
    assert calls_of(name) <= BUDGETS[name]


if __name__ == "__main__":
    print(json.dumps({name: calls_of(name) for name in BUDGETS}, indent=2))
