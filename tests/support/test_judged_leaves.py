"""The names of members that may have verdicts of their own, so that others need not be judged one by one."""

from __future__ import annotations

import pytest

from gpu2npu.support.release_tables import table_for
from gpu2npu.support.releases import VERSIONS
from gpu2npu.support.verdicts import VerdictKind, judged_leaves, verdict


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_release_refuses_is_among_them(version: str) -> None:
    leaves = {api.rpartition(".")[2] for api in table_for(version).refused}
    assert leaves <= judged_leaves()


@pytest.mark.parametrize("owner", ["torch.Tensor", "torch.nn.Module"])
def test_other_members_have_the_verdict_of_their_class(owner: str) -> None:
    assert "a_member_of_nothing" not in judged_leaves()
    assert verdict(f"{owner}.a_member_of_nothing", "2.7.1").kind is VerdictKind.NATIVE
