"""The choice of the structural rewrites that a user asks for."""

from __future__ import annotations

from msgspec import Struct, field


class CodemodError(ValueError):
    """A codemod cannot do what the user asked for; the message is one sentence for them."""


class Installation(Struct, frozen=True):
    """The part of a project that it installs: the outermost folders of its packages, `packages`, and the files with the
    functions that its `commands` call, by path. Programs outside the project import these."""

    packages: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class CodemodChoice(Struct, frozen=True):
    """`data_parallel` says that DataParallel becomes DistributedDataParallel, as it does unless the rule of that
    name is skipped; `apex_amp` says the same of apex's mixed precision. `main` is the entry file that becomes a
    multi-card script (`distributed -m`), relative to the project, and `target_model` the expression of the model in
    it. `amp_model` is the model whose training becomes mixed precision (`-a`), `specify_device` takes the device from
    DEVICE_ID (`-s`), `modelarts` maps paths (`--modelarts`), `similar` replaces unsupported calls that have an
    equivalent (`-sim`), `affinity` are the kinds of code that becomes a call of a fused operator (`--affinity`).
    `excluded` are the files to keep as they are, `readers` the Python files that take a device from a file of another
    kind (see device_files.py), `installed` what the project installs."""

    data_parallel: bool = True
    apex_amp: bool = True
    main: str | None = None
    target_model: str = "model"
    amp_model: str | None = None
    specify_device: bool = False
    modelarts: bool = False
    similar: bool = False
    affinity: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()
    readers: tuple[str, ...] = ()
    installed: Installation = field(default_factory=Installation)


DEFAULT_CHOICE = CodemodChoice()
