"""Rules for arguments of calls that come out of a dictionary."""

import pytest

from gpu2npu import migrate_source


@pytest.mark.parametrize(
    ("value", "is_reported"), [("'cuda'", False), ("rank", True), ("torch.cuda.current_device()", True), ("x", False)]
)
def test_a_number_as_a_device_that_a_dictionary_gives(value: str, is_reported: bool) -> None:
    code = f"import torch\n\n\ndef f(x, rank):\n    return torch.zeros(2, **{{'device': {value}}})\n"
    found = [finding.rule for _, finding, _ in migrate_source(code, version="2.1.0").findings]
    assert (found == ["device-integer-argument"]) is is_reported
