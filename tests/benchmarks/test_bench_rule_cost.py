from pathlib import Path

from benchmarks.rule_cost import doubled, format_rule_cost, measure_rule_cost
from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.kinds.code import CodeMatch
from gpu2npu.kinds.definition import ClassMatch, DecoratorMatch
from gpu2npu.kinds.member import MemberMatch
from gpu2npu.kinds.setting import SettingMatch
from gpu2npu.rulebook import load_rulebook

SOURCE = b"import torch\nx = torch.zeros(2, device='cuda').cuda()\ntorch.cuda.synchronize()\n"


def test_the_twins_are_as_many_rules_for_other_words() -> None:
    rulebook = load_rulebook()
    twice = doubled(rulebook)
    assert len({rule.id for rule in twice.rules}) == 2 * len(rulebook.rules)
    twins = {rule.match for rule in twice.rules[len(rulebook.rules) :]}
    assert twins.isdisjoint(rule.match for rule in rulebook.rules)
    assert {CodeMatch, MemberMatch, ClassMatch, DecoratorMatch, SettingMatch} < {type(match) for match in twins}
    results = [migrate_source(SOURCE, "a.py", book, ProjectContext()) for book in (rulebook, twice)]
    assert results[0].content is not None
    assert results[0] == results[1]


def test_the_cost_is_measured_on_a_tree(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(SOURCE)
    cost = measure_rule_cost(tmp_path, "2.1.0", estimates=1)
    assert cost.rules == len(load_rulebook().rules)
    ((once, twice),) = cost.estimates
    assert once > 0
    assert cost.calls[0] > 1000
    assert cost.added == [twice / once - 1]
    assert f"{cost.added[0]:+.1%}" in format_rule_cost(cost)
