"""A string is a device where the words of what it is compared with say so."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("code", "edited"),
    [
        ("device", True),
        ("x.device", True),
        ("x.type", True),
        ("x.device[0]", True),
        ("x['device']", True),
        ("x.device['kind']", False),
        ("(device or kind)", True),
        ("(kind or device)", True),
        ("(kind or mode)", False),
        ("(device + kind)", True),
        ("(kind + device)", True),
        ("(kind + mode)", False),
        ("(device if ok else kind)", True),
        ("(kind if ok else device)", True),
        ("(kind if device else mode)", False),
        ("(device := pick())", True),
        ("(kind := device)", True),
        ("(kind := pick())", False),
        ("-device", False),
        ("str(device)", True),
        ("str(kind)", False),
        ("str(kind, device)", False),
        ("str()", False),
        ("device.lower()", True),
        ("kind.lower(device)", False),
        ("getattr(x, 'device')", True),
        ("getattr(x, 'type', None)", True),
        ("getattr(x, 'kind', 'device')", False),
        ("x.get('device')", True),
        ("x.pop('device', None)", True),
        ("x.get('type')", False),
        ("x.get()", False),
        ("load('device')", False),
        ("load(device)", False),
        ("load_device(x)", True),
        ("map_location_of(x)", True),
        ("location_of_map(x)", False),
        ("location()", False),
    ],
)
def test_what_a_string_is_compared_with(migrate_with, code: str, edited: bool) -> None:
    text = f"if {code} == 'cuda': ...\n"
    result = migrate_with([], text)
    assert (result.content or text.encode()).decode() == (text.replace("cuda", "npu") if edited else text)
    assert [finding.rule for finding in result.findings] == ([] if edited else ["device-string"])


@pytest.mark.parametrize(
    ("test", "edited"),
    [
        ("kind.startswith('cuda:')", True),
        ("kind.startswith(('cuda:', 'xpu:'))", True),
        ("kind.startswith('cuda')", False),
        ("kind.startswith('cuda:12.1')", False),
        ("other.startswith('cuda:')", False),
    ],
)
def test_what_is_tested_for_a_device_with_an_index_is_one_among_other_words(migrate, test: str, edited: bool) -> None:
    code = f"def f(kind, other):\n    if kind in ('cuda', 'gpu', 'all'):\n        return 1\n    return {test}\n"
    assert ("('npu', 'gpu', 'all')" in migrate(code)) is edited
