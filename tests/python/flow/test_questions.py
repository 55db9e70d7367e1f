from gpu2npu.python.flow.value_project import Questions


def test_an_answer_that_does_not_settle_is_not_complete():
    questions = Questions()

    def grow():
        return dict.fromkeys(range(len(questions.ask(("grows",), grow)) + 1))

    def settle():
        return dict.fromkeys([0, *(each for each in questions.ask(("settles",), settle) if each < 3)])

    assert len(questions.ask(("grows",), grow)) > 1 and not questions.is_complete(("grows",))
    assert questions.ask(("settles",), settle) == {0: None} and questions.is_complete(("settles",))
