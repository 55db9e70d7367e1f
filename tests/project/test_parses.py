"""Each Python file of a project is parsed once in a run, in whatever process, and a second time at most."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch.optim

ROOT = Path(__file__).parents[2]
# Runs the command, and writes the digest of each text that is parsed, by any of its processes, to a file.
PROGRAM = """
import ast, hashlib, os, sys
import libcst
sys.path[:0] = {path!r}
log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def counted(parse):
    def count(text, *arguments, **named):
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        os.write(log, hashlib.sha256(data).hexdigest().encode() + b"\\n")
        return parse(text, *arguments, **named)
    return count

ast.parse, libcst.parse_module = counted(ast.parse), counted(libcst.parse_module)
from gpu2npu.cli.main import main
from gpu2npu.project import worker_processes
worker_processes._LEFT = sys.maxsize  # what one worker takes from another depends on how busy the machine is
sys.argv = ["gpu2npu", *{arguments!r}]
main()
"""


def scripts_and_modules(folder: Path, count: int = 12) -> Path:
    """As many scripts as modules; each script loads all modules, and one of these names a device."""
    folder.mkdir()
    for number in range(count):
        device = "\n\ndef device():\n    return 'cuda:0'\n" if not number else ""
        (folder / f"module{number}.py").write_text(f"def f{number}(x):\n    return [x, {number}]\n{device}")
        imports = "".join(f"import module{each}\n" for each in range(count))
        start = f"\nif __name__ == '__main__':\n    print(module0.device(), module{number}.f{number}(1))\n"
        (folder / f"script{number}.py").write_text(f"import torch\n{imports}{start}")
    return folder


def some_fixtures(folder: Path) -> Path:
    """The fixtures without those of `recent`: with these, workers that plan a part parse what others have read."""
    shutil.copytree(ROOT / "fixtures", folder, ignore=shutil.ignore_patterns("recent"))
    return folder


def parses(project: Path, scratch: Path, *arguments: str) -> Counter[str]:
    """Return how often each Python file of a project that is parsed at all is parsed, by path."""
    log = scratch / "parses"
    code = PROGRAM.format(path=sys.path, log=str(log), arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in (0, 1), done.stderr
    counts = Counter(log.read_text().split())
    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in project.rglob("*.py")}
    copies = Counter(digests.values())
    return Counter(
        {str(path): counts[digest] for path, digest in digests.items() if counts[digest] and copies[digest] == 1}
    )


@pytest.mark.parametrize("version", ["2.1.0", "2.7.1"])
@pytest.mark.parametrize("name", ["fixtures", "programs", "package"])
def test_a_file_is_parsed_once_and_at_most_twice(name: str, version: str, tmp_path: Path) -> None:
    project = {
        "fixtures": lambda: some_fixtures(tmp_path / "fixtures"),
        "programs": lambda: scripts_and_modules(tmp_path / "programs"),
        "package": lambda: Path(torch.optim.__file__).parent,
    }[name]()
    out = str(tmp_path / "out")
    counts = parses(project, tmp_path, "-i", str(project), "-o", out, "-v", version, "-j", "2")
    assert len(counts) > 20, "the log is of this project"
    assert max(counts.values()) <= 2, counts.most_common(3)
    assert counts.total() <= 1.1 * len(counts), counts.most_common(9)
