"""The settings of a run: how the files of a project are looked at."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.codemods.choice import DEFAULT_CHOICE, CodemodChoice
from gpu2npu.formats.kinds import OTHER_KINDS
from gpu2npu.near_names import did_you_mean
from gpu2npu.project.errors import UsageError
from gpu2npu.support.releases import known_torch_npu, known_version, release_of, unknown_torch_npu, unknown_version


class RuleChoice(Struct, frozen=True):
    """A choice of rules: `files` of own rules; the ids of the `only` rules to apply (none: all), and of `skip`."""

    files: tuple[Path, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


class Settings(Struct, frozen=True):
    """The settings that a command line, an API's caller and a project's own file give; empty ones are not set.

    `version` is that of PyTorch that a project is written for, `torch_npu` a release of torch_npu, "" for the newest of
    the version. `rules` are files of the user's own rules, `only_rules` the ids of the only rules to apply,
    `skip_rules` of those not to. What fits a pattern of `exclude`, or is of a kind in `skip_kinds` (see
    formats/kinds.py), stays as it is. `chips` are families of chips (of chips.CHIPS). `codemods` are the structural
    rewrites. `jobs` is the number of worker processes, None for one a CPU; `file_timeout` how many seconds the work on
    one file may take, None for as long as it likes. `file` is where a project's own settings are,
    `lang` the language they ask for.
    """

    version: str = ""
    torch_npu: str = ""
    rules: tuple[Path, ...] = ()
    only_rules: tuple[str, ...] = ()
    skip_rules: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    skip_kinds: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    codemods: CodemodChoice = DEFAULT_CHOICE
    jobs: int | None = None
    file_timeout: float | None = None
    file: Path | None = None
    lang: str = ""

    @property
    def release(self) -> str:
        """The release of torch_npu whose facts are used; only for settings that were checked."""
        chosen = known_torch_npu(self.torch_npu) if self.torch_npu else known_version(self.version)
        return chosen or self.version

    @property
    def choice(self) -> RuleChoice:
        """The rules to apply."""
        return RuleChoice(self.rules, self.only_rules, self.skip_rules)

    def excludes(self, path: str) -> bool:
        """Return whether a path in the project, with forward slashes, or a folder above it fits a pattern to exclude.

        `*` also stands for slashes.
        """
        patterns = (pattern.rstrip("/") for pattern in self.exclude)
        return any(fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*") for pattern in patterns)

    def or_else(self, project: Settings) -> Settings:
        """The settings, filled up with a project's own where they are empty."""
        torch_npu = self.torch_npu or ("" if self.version else project.torch_npu)
        return replace(
            self,
            version=self.version or self.torch_npu or project.version or torch_npu,
            torch_npu=torch_npu,
            rules=self.rules or project.rules,
            skip_rules=self.skip_rules or project.skip_rules,
            exclude=self.exclude or project.exclude,
            skip_kinds=self.skip_kinds or project.skip_kinds,
            chips=self.chips or project.chips,
            lang=self.lang or project.lang,
        )

    def check(self) -> None:
        """Raises UsageError with the first reason why no project can be looked at with these settings."""
        chosen = known_torch_npu(self.torch_npu) if self.torch_npu else None
        if self.torch_npu and chosen is None:
            raise UsageError(f"--torch-npu: {unknown_torch_npu(self.torch_npu)}.")
        if known_version(self.version) is None:
            raise UsageError(f"{unknown_version(self.version)}.")
        if chosen is not None and release_of(chosen) != release_of(self.version):
            raise UsageError(f"--torch-npu {self.torch_npu} is not for PyTorch {self.version}; leave one out.")
        for kind in self.skip_kinds:
            if kind not in OTHER_KINDS:
                hint = did_you_mean(kind, OTHER_KINDS) or f"the kinds are {', '.join(OTHER_KINDS)}."
                raise UsageError(f"There is no kind of files {kind!r} to skip; {hint}")
        for rule_file in self.rules:
            if not rule_file.is_file():
                raise UsageError(f"The rule file '{rule_file}' does not exist or is not a file.")
