from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.formats.shell_lexer import lex

SHELL_TEXT = st.text(alphabet="ab $\"'`\\(){};&|<>\n#=-\t0", max_size=60)


def words(text: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in lex(text).commands]


def test_simple_commands() -> None:
    assert words("a b; c && d | e\nf &") == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]
    assert words("a \\\n b # c d\n") == [["a", "b"]]
    assert words("a 'b c' \"d $e\" f\\ g") == [["a", "'b c'", '"d $e"', "f\\ g"]]


def test_substitutions_are_commands_too() -> None:
    assert sorted(words("a $(b c) `d` <(e) ${f:-$(g)}")) == [
        ["a", "$(b c)", "`d`", "<(e)", "${f:-$(g)}"],
        ["b", "c"],
        ["d"],
        ["e"],
        ["g"],
    ]


def test_redirections_are_no_words() -> None:
    (command,) = lex("a 2>&1 >> out.sh < in 2>&- b").commands
    assert [word.text for word in command.words] == ["a", "b"]
    assert [word.text for word in command.targets] == ["out.sh", "in"]


def test_heredocs_belong_to_their_command() -> None:
    text = "a <<X | b <<-'Y'\none $v\nX\n\ttwo\n\tY\nc\n"
    script = lex(text)
    bodies = {
        command.words[0].text: [(text[h.start : h.end], h.raw) for h in command.heredocs] for command in script.commands
    }
    assert bodies == {"a": [("one $v\n", False)], "b": [("\ttwo\n", True)], "c": []}


def test_case_patterns_and_functions() -> None:
    script = lex("f() { a; }\ncase $x in\n a|b) c ;;\n (d) e ;;\nesac\ng")
    patterns = [command.words[0].text for command in script.commands if command.pattern]
    assert patterns == ["a", "b"]
    assert not script.unclosed


def test_arrays() -> None:
    (items, command) = lex("x=(a 'b' # c\n d)").commands
    assert items.array and [word.text for word in items.words] == ["a", "'b'", "d"]
    assert not command.array


def test_an_open_quote_is_noticed() -> None:
    for text in ("a 'b", 'a "b', "a $(b", "a ${b", "a `b", "x=(a"):
        assert lex(text).unclosed, text
    assert not lex("a \"it's\" '\"' $'it\\'s' # it's\n").unclosed


@given(SHELL_TEXT)
def test_any_text_is_read_to_its_end(text: str) -> None:
    script = lex(text)
    for command in script.commands:
        for word in command.words:
            assert text[word.start : word.end] == word.text
    assert all(0 <= start <= end <= len(text) for start, end in script.dead)


def test_steps_are_linear(steps: Callable[..., int]) -> None:
    line = "export A=\"$(b 'c' `d`)\" && e <<< f # g\n"
    assert steps(lex, line * 400) < 4.1 * steps(lex, line * 100)
