from collections.abc import Callable

import pytest

from gpu2npu.analysis.code import Code
from gpu2npu.engine.torch_library import TORCH
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import read_source

Parse = Callable[..., Code]


@pytest.fixture
def parse() -> Parse:
    """Parses a text as `main.py` of a project with these other files, given by paths whose slashes are `__`."""

    def parse_text(text: str, **files: str) -> Code:
        others = {f"{name.replace('__', '/')}.py": content for name, content in files.items()}
        project = Project(frozenset({"main.py", *others}), lambda path: others[path].encode(), library=TORCH)
        return Code.of(Names.of(read_source(text.encode(), "main.py"), project))

    return parse_text
