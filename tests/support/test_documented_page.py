"""The findings of `check` against torch_npu's documentation of native APIs, name by name."""

import re
from pathlib import Path

from gpu2npu.support.documented import documented, documented_names
from tools.documented_apis import VERSION, disagreements, kinds_of

PAGE = Path(__file__).parents[2] / "docs" / "documented-unsupported.md"


def test_the_page_lists_what_check_is_silent_about_and_few_supported_names_are_reported():
    names = sorted(documented_names())
    supported = {name: documented(name).supported for name in names}
    silent, refused, unknown = disagreements(supported, kinds_of(names, VERSION))
    listed = re.findall(r"^\| `([\w.]+)` \| .+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(silent) == sorted(listed)
    assert len(silent) <= 40
    assert len(refused) + len(unknown) <= 20
