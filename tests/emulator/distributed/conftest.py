import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = Path(__file__).with_name("ranks.py")


@pytest.fixture(scope="session")
def run():
    """Run a command under `gpu2npu run`."""

    def call(*command, npus=4, timeout=600, **environment):
        return subprocess.run(
            [sys.executable, "-m", "gpu2npu", "run", "--npus", str(npus), *map(str, command)],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return call


@pytest.fixture
def check(run, training_python, tmp_path):
    """Have ranks run the checks of a module of this folder."""

    def call(module, size):
        ran = run(*training_python, RANKS, module, size, tmp_path, timeout=600)
        assert ran.returncode == 0, ran.stderr
        failures = json.loads(ran.stdout.splitlines()[-1])
        assert not failures, "\n".join(f"{name}:\n{trace}" for name, trace in failures.items())

    return call
