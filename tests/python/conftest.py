from collections.abc import Callable

import pytest

from gpu2npu.engine.torch_library import TORCH
from gpu2npu.python.names import Names
from gpu2npu.python.project import Project
from gpu2npu.python.source import read_source

Parse = Callable[..., Names]


@pytest.fixture
def parse() -> Parse:
    """Parses a text as `main.py` of a project with these other files, given by paths whose slashes are `__`; `_init`
    stands for `__init__`."""

    def parse_text(text: str, **files: str) -> Names:
        others = {
            f"{name.replace('__', '/').replace('_init', '__init__')}.py": content for name, content in files.items()
        }
        project = Project(frozenset({"main.py", *others}), lambda path: others[path].encode(), library=TORCH)
        return Names.of(read_source(text.encode(), "main.py"), project)

    return parse_text
