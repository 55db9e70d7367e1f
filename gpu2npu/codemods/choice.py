"""All codemods, each one record, and the choice of those that a user asks for.

The options of the command line, the choice of a migration and its plan are made of the records: a codemod is a
function, and a record here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from msgspec import Struct, field


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


class Option(Struct, frozen=True):
    """The option of a migration that asks for a codemod, as click has it: a switch if it has no `metavar`. `reads` is
    the function that makes what the codemod takes of the words given to a repeatable option."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    reads: str = ""


class Codemod(Struct, frozen=True):
    """`plan`, `files` and an option's `reads` are functions of this package, `module:function`, which are imported when
    there is something to do: `--help` shows the options without them.

    One with an `option` is planned where it is given, another unless its `rule` is skipped; one that `takes_main` for
    the entry file of a choice, too. It may change the files that use one of the qualified `names`, and those that
    `files` gives of a project without parsing it; with neither, any file. `folder` of templates/ is put beside the
    programs with new code that imports it, and into their packages if it `is_relative`ly imported. `missing` is the
    error where no part of the project has what the option, `{given}`, is about: `plan` gives None for such a part."""

    name: str
    plan: str
    option: Option | None = None
    rule: str = ""
    takes_main: bool = False
    names: frozenset[str] = frozenset()
    files: str = ""
    folder: str = ""
    is_relative: bool = False
    missing: str = ""

    def is_wanted(self, choice: CodemodChoice) -> bool:
        """Return whether a user asks for it, by an option or by keeping its rule."""
        return self.name in choice.options if self.option is not None else self.name not in choice.skipped


DATA_PARALLEL = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)
DATA_PARALLEL_FUNCTION = frozenset({"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"})
APEX_AMP = frozenset({"apex.amp"})
# In the order of precedence: where two codemods want the same characters, the first has them.
CODEMODS = (
    Codemod(
        "data_parallel",
        "data_parallel.conversion:data_parallel",
        rule="data-parallel",
        takes_main=True,
        names=DATA_PARALLEL | DATA_PARALLEL_FUNCTION,
    ),
    Codemod(
        "amp_model",
        "amp_model:amp_model",
        Option(
            ("-a", "--amp_model", "--amp-model"),
            "Train the model in the variable MODEL, such as net or self.model, with automatic mixed precision.",
            "MODEL",
        ),
        missing="No loop that trains the model '{given}' was found; give -a/--amp_model the variable that is called in "
        "the forward pass, such as net or self.model.",
    ),
    Codemod("apex_amp", "apex_amp:apex_amp", rule="apex-amp", names=APEX_AMP),
    Codemod(
        "specify_device",
        "specify_device:specify_device",
        Option(("-s", "--specify-device"), "Take the number of the NPU from the environment variable DEVICE_ID."),
    ),
    Codemod(
        "similar",
        "similar:similar",
        Option(
            ("-sim", "--similar"),
            "Replace unsupported calls that have an equivalent; ascend_function/ holds the equivalents.",
        ),
        folder="ascend_function",
    ),
    Codemod(
        "modelarts",
        "modelarts:modelarts",
        Option(
            ("-m", "--modelarts"),
            "Map the paths of files for Huawei ModelArts, by ascend_modelarts_function/path_mapping_config.py.",
        ),
        folder="ascend_modelarts_function",
    ),
    Codemod("plugin", "plugin:plugin", files="concern:without_plugin"),
    Codemod(
        "affinity",
        "affinity.codemod:affinity",
        Option(
            ("--affinity",),
            "Use the NPU's fused operators for code that spells them out: `safe` changes nothing but rounding, `all` "
            "also what docs/affinity.md says, or some kinds such as rms-norm.",
            "safe|all|KIND,...",
            "affinity.catalogue:chosen",
        ),
        folder="ascend_affinity",
        is_relative=True,
    ),
)


def imported(function: str) -> Callable[..., Any]:
    """The function of this package that a record names."""
    module, name = function.split(":")
    found: Callable[..., Any] = getattr(import_module(f"gpu2npu.codemods.{module}"), name)
    return found
