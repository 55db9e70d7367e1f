"""Whatever is in a rule file, loading it ends in rules whose examples can be run, or in one sentence."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpu2npu.project.rule_examples import run_examples
from gpu2npu.rulebook import RuleError, load_rulebook
from gpu2npu.rulebook.document import starter
from gpu2npu.rulebook.match import kinds

VENDOR = {
    "rules": {
        "ArgsModifyRule": [{"func_name": "f", "arg_idx": 0, "arg_new": "x", "white_list": ["cpu"]}],
        "FuncNameModifyRule": [{"old_name": "a.b", "new_name": "c", "replace_module": False}],
        "ModuleNameModifyRule": [{"old_name": "a", "new_name": "b", "parent_module": "c"}],
        "ReplaceStringRule": [{"str_old": "a", "str_new": "b", "strict": False}],
        "ReplaceAttributeRule": [{"old_name": "a", "new_name": "b"}],
    }
}
SEEDS = [*(json.loads(starter(f"mine-{kind}", kind)) for kind in kinds()), VENDOR]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "torch.cuda",
            "cuda",
            "a b",
            "{0}",
            "{",
            "(",
            "\\1",
            "x=1",
            "rules",
            "2.1.0",
            "9.9.9",
            "1" * 5,
            "*",
            "\n",
            "\ud7ff",
        ]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((*path, key), *places(inner, (*path, key)))]


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A good rule file in which one or two values are something else, or missing."""
    document = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from(places(document) or [("rules",)]))
        holder = document
        for step in path:
            holder = holder[step]
        if draw(st.booleans()):
            holder[last] = draw(VALUES)
        elif isinstance(holder, dict):
            holder.pop(last, None)
        else:
            del holder[last:]
    return document


@given(documents())
@example({"rules": {"\r": None}})
@example({"rules": {"ArgsModifyRule": [{"\r": None}]}})
@example({"roles": {"\r": 1}})
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_it_loads_or_is_refused(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        rulebook = load_rulebook([path])
    except RuleError as error:
        assert all(line.startswith(str(path)) and line.endswith(".") for line in str(error).splitlines())
        return
    for run in run_examples((rule for rule in rulebook.rules if not rule.builtin), rulebook):
        assert run.problem is None or "\n" not in run.problem
