"""The script that `distributed` makes train on many cards: which file of the project it is."""

from __future__ import annotations

import keyword
from pathlib import Path

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.project.errors import UsageError


def choose_entry(source: Path, main: Path, target_model: str) -> CodemodChoice:
    """The codemods for an entry file, given as a path or relative to the source, and the model variable in it.

    Raises UsageError if the file is not a Python file of the source, or the model is not a name.
    """
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in target_model.split(".")):
        raise UsageError(f"The target model '{target_model}' is not a variable's name such as net or self.model.")
    root = source if source.is_dir() else source.parent
    file = next((path for path in (root / main, main) if path.is_file()), None)
    if file is None:
        raise UsageError(f"The entry file '{main}' is not in the input '{source}'; give its path there.")
    inside = file.resolve()
    if not inside.is_relative_to(root.resolve()) or (source.is_file() and inside != source.resolve()):
        raise UsageError(f"The entry file '{main}' is outside the input '{source}'; give one of its own scripts.")
    if inside.suffix != ".py":
        raise UsageError(f"The entry file '{main}' is not a Python file (.py).")
    return CodemodChoice(main=inside.relative_to(root.resolve()).as_posix(), target_model=target_model)
