import pytest

from gpu2npu.formats.dispatch import may_concern


def test_bytes_that_are_no_utf8_survive(migrate) -> None:
    assert migrate(b"# \xe9\xff\nnvidia-smi\n", "run.sh").content == b"# \xe9\xff\nnpu-smi info\n"
    assert migrate(b"\xef\xbb\xbfdevice: cuda\n", "c.yaml").content == b"\xef\xbb\xbfdevice: npu\n"


def test_line_ends_and_a_missing_last_one_survive(migrate) -> None:
    assert migrate(b"a: 1\r\ndevice: cuda", "c.yaml").content == b"a: 1\r\ndevice: npu"


@pytest.mark.parametrize("path", ["a.yaml", "a.json", "a.sh", "a.toml", "Dockerfile", "a.ipynb", "a.txt"])
def test_a_file_without_a_trigger_is_not_read(rulebook, path: str) -> None:
    assert not may_concern(b'{"optimizer": "adam", "epochs": 3}', path, rulebook, "2.1.0")


def test_rules_for_other_files_stay_away(migrated) -> None:
    text = "version = 1.0+cu118\n"
    assert migrated(text, "tox.ini") == text
    assert migrated('version = "1.0+cu118"\n', "a.toml") == 'version = "1.0"\n'


def test_python_goes_to_the_engine(migrated) -> None:
    assert migrated("m.to('cuda')\n", "a.py") == "m.to('npu')\n"


def test_changes_are_in_order_and_lie_where_the_text_was(migrate) -> None:
    text = "device: cuda\nb: {backend: nccl}\n"
    result = migrate(text, "c.yaml")
    lines = text.split("\n")
    assert [change.rule for change in result.changes] == ["device-string", "nccl-string"]
    for change in result.changes:
        span = change.span
        assert lines[span.start_line - 1][span.start_column : span.end_column] == change.before
