"""All codemods, each one record, and the choice of those that a user asks for.

The options of the command line, the choice of a migration and its plan are made of the records. A codemod is a module
of this package with a function and a record, `CODEMOD`. A part of a project, which they plan, is here
too; all are light to import.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from gpu2npu.python.meaning.library import Library


class CodemodError(ValueError):
    """A codemod cannot do what the user asked for; the message is one sentence for them."""


class Installation(Struct, frozen=True):
    """The part of a project that it installs: the outermost folders of its packages, `packages`, and the files with the
    functions that its `commands` call, by path. Programs outside the project import these."""

    packages: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class CodemodChoice(Struct, frozen=True):
    """`skipped` are the codemods whose rules are skipped, by the names of their records. `main` is the entry file that
    becomes a multi-card script (`distributed -m`), relative to the project, and `target_model` the expression of the
    model in it. `options` has the codemods that are asked for, by the names of their records, with what their
    options give: the variable of the model for `amp_model`, the kinds of code for `affinity`, True for a switch.
    `excluded` are the files to keep as they are, `readers` the Python files that take a device from a file of another
    kind (see device_files.py), `installed` what the project installs."""

    skipped: frozenset[str] = frozenset()
    main: str | None = None
    target_model: str = "model"
    options: Mapping[str, Any] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    readers: tuple[str, ...] = ()
    installed: Installation = field(default_factory=Installation)


DEFAULT_CHOICE = CodemodChoice()


class Option(Struct, frozen=True, omit_defaults=True):
    """The option of a migration that asks for a codemod, as click has it: a switch if it has no `metavar`. `reads` is
    the function that makes what the codemod takes of the words given to a repeatable option."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    reads: str = ""


class Codemod(Struct, frozen=True, omit_defaults=True):
    """The function of the name in the module of the record plans it: `plan` is that, `module:function`, as `files` and
    an option's `reads` are. They are imported when there is something to do: `--help` shows the options without them.
    Where two codemods want the same characters, the one of the lower `precedence` has them.

    One with an `option` is planned where it is given, another unless its `rule` is skipped; one that `takes_main` for
    the entry file of a choice, too. It may change the files that use one of the qualified `names`, and those that
    `files` gives of a project without parsing it; with neither, any file. `folder` of templates/ is put beside the
    programs with new code that imports it, and into their packages if it `is_relative`ly imported. `missing` is the
    error where no part of the project has what the option, `{given}`, is about: `plan` gives None for such a part."""

    name: str
    plan: str = ""
    option: Option | None = None
    rule: str = ""
    takes_main: bool = False
    names: frozenset[str] = frozenset()
    files: str = ""
    folder: str = ""
    is_relative: bool = False
    missing: str = ""
    precedence: int = 100

    def is_wanted(self, choice: CodemodChoice) -> bool:
        """Return whether a user asks for it, by an option or by keeping its rule."""
        return self.name in choice.options if self.option is not None else self.name not in choice.skipped


# `make docs` collects them from the modules, none of which is imported to know the options.
CODEMODS = msgspec.json.decode(Path(__file__).with_name("codemods.json").read_bytes(), type=tuple[Codemod, ...])


def imported(function: str) -> Callable[..., Any]:
    """The function of this package that a record names."""
    module, name = function.split(":")
    found: Callable[..., Any] = getattr(import_module(f"gpu2npu.codemods.{module}"), name)
    return found


class ProjectPart(Struct, frozen=True):
    """Some files of a project, with everything that they import of it. Picklable.

    `wanted` are the files that some codemod could be for, `imports` the files that each imports, `trains` is whether
    any file of the project computes gradients, `packages` are the folders of the project with an `__init__.py`.
    `facts` are those of the files that another process has read, encoded.
    """

    sources: Mapping[str, bytes]
    wanted: Collection[str]
    imports: Mapping[str, frozenset[str]]
    version: str
    library: Library
    choice: CodemodChoice
    trains: bool
    packages: frozenset[str]
    facts: Mapping[str, bytes] = field(default_factory=dict)
