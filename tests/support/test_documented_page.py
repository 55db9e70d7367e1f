"""The findings of `check` against torch_npu's documentation of native APIs, name by name."""

import re
from pathlib import Path

import pytest

from gpu2npu.records import FindingKind
from gpu2npu.support.behaviour import names
from gpu2npu.support.facts import documented, documented_names
from gpu2npu.support.verdicts import VerdictKind, verdict
from tools.documented_apis import VERSION, disagreements, kinds_of

PAGE = Path(__file__).parents[2] / "docs" / "documented-unsupported.md"


NAMES = sorted(documented_names())
GOOD = (VerdictKind.NATIVE, VerdictKind.COMPOSITE)
# What a mapping has too, and what rules keep or rename whatever the tables say.
KNOWN_OTHERWISE = {"torch.Tensor.values", "torch.nn.Module.npu", "torch.profiler.ProfilerActivity.name"}


@pytest.fixture(scope="module")
def kinds() -> dict[str, set[FindingKind]]:
    """The kinds of the findings about a use of each documented name."""
    return kinds_of(NAMES, VERSION)


def test_the_page_lists_what_check_is_silent_about_and_few_supported_names_are_reported(kinds):
    supported = {name: documented(name).supported for name in NAMES}
    silent, refused, unknown = disagreements(supported, kinds)
    listed = re.findall(r"^\| `([\w.]+)` \| .+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(silent) == sorted(listed)
    assert len(silent) <= 25
    assert len(refused) + len(unknown) <= 10


def test_check_says_what_the_verdict_says(kinds):
    """Check each documented name as a user's program has it; a limit of dtypes or devices says more than a verdict."""
    verdicts = {name: verdict(name, VERSION).kind for name in NAMES}
    assert [
        name
        for name, kind in verdicts.items()
        if (kind in GOOD and FindingKind.UNSUPPORTED in kinds[name] and name not in names())
        or (kind is VerdictKind.UNSUPPORTED and FindingKind.UNSUPPORTED not in kinds[name])
        or (kind is VerdictKind.FALLBACK) != (FindingKind.FALLBACK in kinds[name])
        or (kind is VerdictKind.UNKNOWN and not kinds[name] and name not in KNOWN_OTHERWISE)
    ] == []
