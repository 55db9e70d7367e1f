"""Each reader against a parser of the same language: the same values, each standing where the reader says."""

import json
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.engine.knowledge import knowledge_for
from gpu2npu.formats.ini_reader import read_ini
from gpu2npu.formats.json_reader import read_json
from gpu2npu.formats.nodes import FormatError, Items, Mapping, Node, Scalar, entry, without_data
from gpu2npu.formats.toml_reader import read_toml
from gpu2npu.formats.yaml_reader import read_yaml
from gpu2npu.rulebook import load_rulebook

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab cü"\\\n', max_size=4), inner, max_size=3),
    max_leaves=8,
)


def strings(value: Any) -> Any:
    """The value with everything but strings, lists and dictionaries made None, as nodes have it."""
    if isinstance(value, dict):
        return {str(key): strings(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [strings(inner) for inner in value]
    return value if isinstance(value, str) else None


def meaning(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {key.value: meaning(value) for key, value in node.entries}
    if isinstance(node, Items):
        return [meaning(item) for item in node.items]
    return node.value


def check_places(node: Node, text: str) -> None:
    if isinstance(node, Mapping):
        for key, value in node.entries:
            check_places(key, text)
            check_places(value, text)
    elif isinstance(node, Items):
        for item in node.items:
            check_places(item, text)
    elif node.value is not None and node.exact:
        if node.places is None:
            assert text[node.start : node.end] == node.value
        for index, character in enumerate(node.value):
            assert text[node.place(index)] in (character, "\\")


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    node = read_json(text)
    check_places(node, text)
    assert meaning(node) == strings(value)


def test_json_as_people_write_it() -> None:
    text = "// a\n{'a': \"b\", c: [1, /* d */ 'e',], }\n"
    assert meaning(read_json(text)) == {"a": "b", "c": [None, "e"]}


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', "[1 2]", '{"a": }', "{} {}", "[" * 5000, '{"a": "b\n"}'])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(FormatError, match=r"^it is not JSON \(line \d+: "):
        read_json(text)


@given(VALUES.filter(lambda value: isinstance(value, dict)), st.booleans())
def test_yaml(value: Any, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    (node,) = read_yaml(text)
    check_places(node, text)
    assert meaning(node) == strings(yaml.safe_load(text))


def test_yaml_documents_anchors_tags_and_blocks() -> None:
    text = "a: &x {b: cuda}\nc: *x\nd: !!python/name:torch.x ''\n---\ne: |\n  one\n  two\nf: >-\n  three\n"
    first, second = read_yaml(text)
    assert meaning(first) == {"a": {"b": "cuda"}, "c": [], "d": ""}
    block = entry(second, "e")
    assert isinstance(block, Scalar) and block.block and text[block.start : block.end] == "  one\n  two\n"


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "{{ x }}: {% if %}", "\ta: b", "a: *x", "[" * 3000])
def test_what_is_no_yaml(text: str) -> None:
    with pytest.raises(FormatError, match=r"^it is not YAML"):
        read_yaml(text)


TOML = """\
# comment
title = "a # b" # c
'quoted key' = 'lit\\eral'
dotted.key.x = 1
when = 1979-05-27 07:32:00Z
long = \"\"\"
first
"second" \"\"\"
raw = '''
it's'''
empty = ""
escaped = "tab\\t\\u00e9\\""
[table . inner]
list = [ "a", # one
  'b',
  [1, 2], { c = "d", e.f = "g" } ]
[[points]]
x = "1"
[[points]]
x = "2"
[points.sub]
y = "3"
"""


def test_toml() -> None:
    node = read_toml(TOML)
    check_places(node, TOML)
    expected = strings(tomllib.loads(TOML))
    points = [meaning(value) for key, value in node.entries if key.value == "points"]  # type: ignore[union-attr]
    assert points == [{"x": "1"}, {"x": "2", "sub": {"y": "3"}}] == expected.pop("points")
    found = meaning(node)
    del found["points"]
    assert found == expected


@pytest.mark.parametrize(
    "text", ["a", "a =", "a = 1 b = 2", "[a", "a = [1", "a = {b = 1", "= 1", 'a = "b', "a = [1 2]"]
)
def test_what_is_no_toml(text: str) -> None:
    with pytest.raises(FormatError, match=r"^it is not TOML"):
        read_toml(text)


def test_ini() -> None:
    text = "x = 1\n[a b]\n; c\nkey: value # d\nlist =\n  one\n  two ; e\nq = 'r'\nempty =\n"
    node = read_ini(text)
    check_places(node, text)
    assert meaning(node) == {
        "": {"x": "1"},
        "a b": {"key": "value", "list": ["one", "two"], "q": "r", "empty": []},
    }


def test_records_of_data_without_a_word_of_a_rule_are_left_out() -> None:
    given = [f'{{"id": {number}}}' for number in range(90)]
    given[70] = '{"text": "cuda"}'
    records = ", ".join(given)
    text = f'{{"device": "cuda", "rows": [{records}, 7, // a comment\n {{"id": 1, }}]}}'
    places = [text.index("cuda"), text.index("cuda", 60)]
    whole, read = read_json(text), read_json(text, places)
    rows, retained = (entry(node, "rows") for node in (whole, read))
    assert isinstance(rows, Items) and isinstance(retained, Items)
    # The first records of a list may be settings; one that is no plain JSON is read as it is.
    assert retained.items == (*rows.items[:50], rows.items[70], *rows.items[90:])
    assert entry(read, "device") == entry(whole, "device")


def test_tables_and_entries_without_a_word_of_a_rule_are_left_out() -> None:
    text = "".join(f"[[rows]]\nid = {number}\n" for number in range(60)) + '[rows.x]\ntext = "cuda"\n'
    left = without_data(read_toml(text), [text.index("cuda")])
    assert isinstance(left, Mapping) and len(left.entries) == 51
    rows = "".join(f"- id: &a{number} word\n" for number in range(60)) + "- *a55\n"
    (document,) = read_yaml(rows)
    left = without_data(document, [])
    assert isinstance(left, Items) and len(left.items) == 52, "an alias takes its value from a record"


def test_all_that_a_rule_could_be_for_is_found_in_a_text() -> None:
    trigger = knowledge_for(load_rulebook(), "2.7.1").trigger
    text = '{"a": "barracuda", "b": "CUDA_HOME", "stage": 3, "c": "\u0130"}'
    plain = text.replace("\u0130", "I")
    assert {plain.index("cuda"), plain.index("CUDA_")} <= set(trigger.places_in(plain))
    assert plain.index("stage") not in trigger.places_in(plain), "zero_optimization is not in the text"
    assert trigger.places_in(text) == list(range(len(text))), "small letters would be at other places"
    both = plain.replace('"c"', '"zero_optimization"')
    assert {both.index("stage"), both.index("3"), both.index("zero_opt")} <= set(trigger.places_in(both))
