import pytest

from gpu2npu.python.flow.questions import Questions


def test_an_answer_that_does_not_settle_is_not_complete():
    questions = Questions()

    def grow():
        return dict.fromkeys(range(len(questions.ask(("grows",), grow)) + 1))

    def settle():
        return dict.fromkeys([0, *(each for each in questions.ask(("settles",), settle) if each < 3)])

    assert len(questions.ask(("grows",), grow)) > 1 and not questions.is_complete(("grows",))
    assert questions.ask(("settles",), settle) == {0: None} and questions.is_complete(("settles",))


def test_an_answer_is_computed_again_only_if_it_used_less():
    """A circle of a hundred, each of which learns from the last one."""
    questions, computed = Questions(), []

    def link(number):
        computed.append(number)
        below = questions.ask((number + 1,), lambda: link(number + 1)) if number < 99 else questions.ask((0,), end)
        return {**below, number: None}

    def end():
        return link(0)

    assert questions.ask((0,), end) == dict.fromkeys(range(100))
    assert all(questions.ask((each,), dict) == dict.fromkeys(range(100)) for each in range(100))
    assert len(computed) == 2 * 100


def test_an_answer_that_was_cut_is_not_computed_again():
    """Two questions of a circle learn from each other; what one leaves out it leaves out with more, too."""
    questions, computed = Questions(), []

    def cut():
        computed.append("cut")
        questions.cut()
        return {"first": None, **questions.ask(("whole",), whole)}

    def whole():
        computed.append("whole")
        return {"second": None, **questions.ask(("cut",), cut)}

    assert questions.ask(("cut",), cut).keys() == {"first", "second"} == questions.ask(("whole",), whole).keys()
    assert computed == ["cut", "whole", "whole"]
    assert not questions.is_complete(("cut",)) and questions.is_complete(("whole",))


def test_a_question_between_two_circles_is_not_known_before_them():
    """One question needs a circle within a larger circle: it gets what only the larger one learns."""
    questions = Questions()
    needs = {"a": "bd", "b": "c", "c": "ba", "d": "c", "e": ""}

    def answer(name):
        found = {name: None} if name == "a" else {}
        for each in needs[name]:
            found.update(questions.ask((each,), lambda each=each: answer(each)))
        return found

    questions.ask(("a",), lambda: answer("a"))
    assert {each: [*questions.ask((each,), dict)] for each in "abcd"} == {each: ["a"] for each in "abcd"}


def test_an_error_leaves_no_question_open():
    questions = Questions()

    def fails():
        questions.ask(("inner",), lambda: questions.ask(("outer",), dict) or {1: None})
        raise LookupError

    for _ in range(2):
        with pytest.raises(LookupError):
            questions.ask(("outer",), fails)
    assert questions.ask(("outer",), lambda: {2: None}) == {2: None}
