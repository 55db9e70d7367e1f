"""Files of a process's own are left as they are, and files that unknown code opens are reported."""

from __future__ import annotations

from textwrap import dedent

import pytest

from gpu2npu.codemods.data_parallel.files.rank_zero import on_rank_zero
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine import ProjectContext
from gpu2npu.records import FileRewrite

HEAD = "import json, os, pickle, tempfile\nimport torch\nimport torch.distributed as dist\nfrom atomic import opened\n"


def rewritten(code: str) -> FileRewrite:
    """Rewrite a program that calls `work`."""
    sources = {"train.py": (HEAD + dedent(code) + "\nwork([])\n").encode()}
    program = TrainingProgram.of(sources, ProjectContext(files=frozenset(sources)))
    return on_rank_zero(program, ["train.py"]).get("train.py", FileRewrite())


@pytest.mark.parametrize(
    "code",
    [
        # All ranks put a whole file in its place in one step.
        """
        def work(rows):
            number, path = tempfile.mkstemp()
            with os.fdopen(number, 'wb') as file:
                pickle.dump(rows, file)
            os.replace(path, 'rows.pkl')
            return pickle.load(open('rows.pkl', 'rb'))
        """,
        """
        def work(rows):
            with tempfile.NamedTemporaryFile('w', delete=False) as file:
                json.dump(rows, file)
            os.replace(file.name, 'rows.json')
        """,
        # Each rank reads what it has written itself.
        """
        def work(rows):
            with tempfile.TemporaryDirectory() as folder:
                torch.save(rows, os.path.join(folder, 'rows'))
                return torch.load(os.path.join(folder, 'rows'), map_location='cpu')
        """,
        """
        def work(rows):
            path = f'rows-{os.getpid()}.pt'
            torch.save(rows, path)
        """,
    ],
)
def test_what_each_process_has_for_itself_is_left(code: str) -> None:
    rewrite = rewritten(code)
    assert not rewrite.edits
    assert not rewrite.found


def test_a_file_that_unknown_code_opens_is_reported_and_written_by_all() -> None:
    rewrite = rewritten(
        """
        def work(rows):
            with opened('rows.pkl') as file:
                pickle.dump(rows, file)
        """
    )
    assert not rewrite.edits
    assert [found.message.partition(":")[0] for found in rewrite.found] == ["Every rank writes to this file"]


def test_only_the_file_that_is_written_is_reported() -> None:
    rewrite = rewritten(
        """
        def work(rows):
            with open('before.json') as old, open('after.json', 'w') as new:
                json.dump(json.load(old), new)
        """
    )
    assert not rewrite.edits
    assert len(rewrite.found) == 1


def test_a_file_by_its_descriptor_is_written_by_rank_zero() -> None:
    rewrite = rewritten(
        """
        def work(rows):
            with os.fdopen(os.open('rows.pkl', os.O_CREAT | os.O_WRONLY), 'wb') as file:
                pickle.dump(rows, file)
        """
    )
    assert "if dist.get_rank() == 0:" in "".join(str(edit.text) for edit in rewrite.edits)
