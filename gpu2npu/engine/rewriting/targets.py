"""New names that rules give to names, and which of them a release of torch_npu has."""

from __future__ import annotations

from msgspec import Struct

from gpu2npu.engine.matches import Matches
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.text.templates import plain
from gpu2npu.records import Bounds, Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.rule import Rule
from gpu2npu.support.release_tables import SupportTable, has_cuda_name, has_npu_name, npu_name_from
from gpu2npu.support.releases import since_when


class Targets(Struct, frozen=True):
    """The new names in one file, whose edits and findings go to `matches`."""

    table: RuleTable
    release: SupportTable
    matches: Matches

    def of(self, qualified: str) -> str | None:
        """Return what a rule renames a qualified name to; None if none does or the release lacks the new name."""
        matched = self.table.rule_for(qualified)
        if matched is None or matched[0].then.keep or matched[0].then.rename is None:
            return None
        target = matched[0].then.rename + qualified[len(matched[1]) :]
        return None if self.is_missing(matched[0], target) else target

    def is_missing(self, rule: Rule, target: str) -> bool:
        """Return whether a rule needs its target to exist in this release, and it does not."""
        return rule.then.needs_target and not has_npu_name(self.release, target)

    def why(self, rule: Rule, *targets: str) -> str:
        """The reason of a rule, with the post release of torch_npu from which on its targets are there, where an older
        one of the same PyTorch lacks them."""
        known = [target for target in targets if target.startswith(("torch.npu.", "torch_npu.npu."))]
        since = [(target, npu_name_from(target, self.release.version)) for target in known]
        notes = [f"{target} is there from torch_npu {first} on." for target, first in since if first]
        return " ".join((rule.why, *notes))

    def report_missing(self, rule: Rule, place: Bounds, qualified: str, target: str) -> None:
        """Report a name whose target the release lacks."""
        release = self.release.wheel.split("-")[1]
        if has_cuda_name(qualified):
            known = since_when(target, self.release.version)
            later = known or f"torch_npu {release} has no {target}: "
            kind, message = FindingKind.UNSUPPORTED, f"{later}left as it is."
            severity = Severity.CHANGE if known else Severity.BLOCKER
        else:
            kind, severity = FindingKind.UNKNOWN, Severity.NOTE
            message = f"Neither PyTorch's documented API nor torch_npu {release} has this name; left as it is."
        self.matches.report(Found(place, rule.id, kind, qualified, message, severity))

    def edit(self, place: Bounds, text: str, rule: Rule, shown: Bounds | None = None, *targets: str) -> None:
        """Replace the text at a place, which then means the `targets`."""
        self.matches.edit(Edit(place, plain(text), rule.id, self.why(rule, *targets), shown))
