from collections.abc import Callable

import pytest

from gpu2npu.engine.torch_library import TORCH
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import read_source

Parse = Callable[..., Names]


def parsed(files: dict[str, str], path: str = "main.py") -> Names:
    """The names of the file at `path` in a project of these files."""
    project = Project(frozenset(files), lambda each: files[each].encode(), library=TORCH)
    return Names.of(read_source(files[path].encode(), path), project)


@pytest.fixture
def parse() -> Parse:
    """Parses a text as `main.py` of a project with these other files, given by paths whose slashes are `__`."""

    def parse_text(text: str, **files: str) -> Names:
        others = {f"{name.replace('__', '/')}.py": content for name, content in files.items()}
        return parsed({"main.py": text, **others})

    return parse_text
