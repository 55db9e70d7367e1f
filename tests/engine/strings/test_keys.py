"""Keys of flags are silent only where their table is read by what is written out."""

from __future__ import annotations

import pytest

from gpu2npu.engine import ProjectContext, migrate_source


@pytest.mark.parametrize("read", ["T[x.device.type]", "T.get(x.device.type)", "[k for k, v in T.items() if v]"])
def test_a_flag_whose_table_is_read_under_other_keys_is_reported_or_edited(rulebook, read: str) -> None:
    text = f"T = {{}}\nT['cuda'] = 1 > 0\nT['seed'] = 3\ndef f(x): return {read}\n"
    found = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert found.findings or b"npu" in (found.content or b"")


def test_a_flag_that_is_read_by_its_name_stays_without_a_word(rulebook) -> None:
    text = "T = {'cuda': True, 'seed': 1}\nif T['cuda']: print(T['seed'])\n"
    found = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert (found.content, found.findings) == (None, ())
