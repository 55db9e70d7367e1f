"""The text of a file after edits, as a migration writes it."""

from collections.abc import Sequence

from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.text.writing import rewritten
from gpu2npu.python.tree.file import read_file
from gpu2npu.records import Edit


def after_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return the text that LibCST writes; each edit is a change of nodes."""
    file = read_file(SourceFile("a.py", text, "utf-8", b""))
    written = rewritten(file, Edited(text, edits))
    assert not written.refused
    return written.text
