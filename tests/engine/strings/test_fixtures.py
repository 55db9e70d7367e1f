"""Parameters of fixtures that are not devices."""

from gpu2npu.engine import ProjectContext, migrate_source


def test_a_doubtful_condition_of_sources_is_not_called_one_of_tensors(rulebook) -> None:
    text = "def suffix(request):\n    if request.param == 'cuda':\n        return '.cu'\n"
    (finding,) = migrate_source(text.encode(), "a.py", rulebook, ProjectContext()).findings
    assert (finding.api, finding.message.partition(";")[0]) == ("'cuda'", "May mean 'npu' on the NPU")
