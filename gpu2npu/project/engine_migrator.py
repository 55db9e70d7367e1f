"""The engine as the project layer uses it: made ready once, then called for each file, in any process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpu2npu.codemods.choice import DEFAULT_CHOICE, CodemodChoice, CodemodError
from gpu2npu.codemods.plan import Plan, Spread
from gpu2npu.codemods.project_plan import plan_codemods
from gpu2npu.engine import ProjectContext, may_have_trigger, scan_project, without_own
from gpu2npu.engine.context import may_have_plugin, may_use_device, project_imports
from gpu2npu.formats.code_installs import may_install
from gpu2npu.formats.dispatch import may_concern, migrate_file
from gpu2npu.project.cache.project_facts import ProjectFacts, ProjectFactsCache
from gpu2npu.project.errors import UsageError
from gpu2npu.project.rule_examples import check_user_examples
from gpu2npu.python.project.search_path import search_folders
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import Rulebook, RuleError, load_rulebook
from gpu2npu.rulebook.select import RuleChoice, select_rules


@dataclass(frozen=True)
class _Reader:
    """Reads a file of the project when the engine follows an import into it."""

    root: Path

    def __call__(self, path: str) -> bytes:
        return (self.root / path).read_bytes()


@dataclass(frozen=True)
class EngineMigrator:
    """Applies a rulebook to the files of one project."""

    rulebook: Rulebook
    context: ProjectContext
    plan: Plan = field(default_factory=Plan)

    @property
    def new_files(self) -> Mapping[str, bytes]:
        return self.plan.new_files

    def concerns(self, source: bytes, path: str) -> bool:
        return (
            path in self.plan.rewrites
            or path in self.plan.failures
            or may_have_trigger(source, self.rulebook, self.context)
            or may_install(source)
        )

    def concerns_other(self, source: bytes, path: str) -> bool:
        return may_concern(source, path, self.rulebook, self.context)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        if path in self.plan.failures:
            return MigratedFile(path, failure=self.plan.failures[path])
        return migrate_file(source, path, self.rulebook, self.context, self.plan.rewrites.get(path))

    @classmethod
    def load(
        cls,
        rules: RuleChoice,
        version: str,
        root: Path,
        sources: Mapping[str, bytes],
        codemods: CodemodChoice = DEFAULT_CHOICE,
        kept: ProjectFactsCache | None = None,
        spread: Spread = map,
    ) -> EngineMigrator:
        """Load the rules and collect what they need to know of the whole project.

        What is collected is taken from `kept` if it is there, and put there if not. `spread` plans the parts of the
        project.

        Raises UsageError if a rule file cannot be used, an example in it fails, a rule's id is unknown, or a codemod
        cannot do what it was asked for.
        """
        try:
            whole = load_rulebook(rules.files)
            check_user_examples(whole)
            rulebook = without_own(select_rules(whole, rules.only, rules.skip), sources, root.name)
            wanted = _wanted(codemods, rulebook)
            facts = _facts(rules, rulebook, version, wanted)
            found = kept.get(facts) if kept is not None else None
            if found is not None:
                context = _context(found, version, root, sources, rulebook)
                return cls(rulebook, context, found.plan)
            migrator = cls.of(rulebook, version, root, sources, codemods, spread)
            context, plan = migrator.context, migrator.plan
            if kept is not None and not plan.failures:  # time or memory may have run out
                own, taken = context.own_members, context.taken_names
                kept.put(facts, ProjectFacts(own, taken, plan, context.parameters, context.other_names))
            return migrator
        except (RuleError, CodemodError) as error:
            raise UsageError(str(error)) from error

    @classmethod
    def of(
        cls,
        rulebook: Rulebook,
        version: str,
        root: Path,
        sources: Mapping[str, bytes],
        codemods: CodemodChoice = DEFAULT_CHOICE,
        spread: Spread = map,
    ) -> EngineMigrator:
        """Collect what rules that are loaded need to know of the whole project. Raises CodemodError."""
        context = scan_project(sources, rulebook, version, _Reader(root), root)
        return cls(rulebook, context, plan_codemods(sources, context, _wanted(codemods, rulebook), spread))


def _wanted(codemods: CodemodChoice, rulebook: Rulebook) -> CodemodChoice:
    return replace(codemods, data_parallel=any(rule.id == "data-parallel" for rule in rulebook.rules))


def _facts(rules: RuleChoice, rulebook: Rulebook, version: str, codemods: CodemodChoice) -> tuple[object, ...]:
    """Return what the facts that are collected from a project depend on, besides its files."""
    files = tuple(hashlib.sha256(file.read_bytes()).hexdigest() for file in rules.files)
    ids = tuple(rule.id for rule in rulebook.rules)
    return version, files, ids, replace(codemods, excluded=frozenset()), sorted(codemods.excluded)


def _context(
    found: ProjectFacts, version: str, root: Path, sources: Mapping[str, bytes], rulebook: Rulebook
) -> ProjectContext:
    return ProjectContext(
        version=version,
        files=frozenset(sources),
        read=_Reader(root),
        root=root,
        own_members=found.own_members,
        taken_names=found.taken_names,
        parameters=found.parameters,
        other_names=found.other_names,
        folders=search_folders(sources),
        uses_device=may_use_device(sources, root),
        has_plugin=may_have_plugin(sources, version),
        imported=project_imports(rulebook, sources),
    )
