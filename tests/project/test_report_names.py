from gpu2npu.project.migration import REPORTS, choose_names, may_be_report
from gpu2npu.report.launcher import LAUNCHER_NAME, launcher_bytes
from gpu2npu.report.tables import header_line

LOG_HEAD = b"2025-01-31 10:07:15,269 gpu2npu INFO 0.1.0: 'p'\n"


def test_reports_have_their_own_names_where_nothing_is_in_the_way() -> None:
    chosen = choose_names({"train.py", "README.md"}, {"README.md": b"# hello"})
    assert chosen.names == {name: name for name in REPORTS}
    assert not chosen.replaced and not chosen.retained_launcher


def test_a_file_of_the_projects_own_keeps_its_name() -> None:
    chosen = choose_names({"change_list.csv"}, {"change_list.csv": b"commit,author\n"})
    assert chosen.names["change_list.csv"] == "gpu2npu_change_list.csv"
    assert chosen.names["unknown_api.csv"] == "unknown_api.csv"
    assert not chosen.replaced


def test_a_folder_or_link_is_in_the_way_too() -> None:
    chosen = choose_names({"change_list.csv", "gpu2npu_change_list.csv"}, {})
    assert chosen.names["change_list.csv"] == "gpu2npu_2_change_list.csv"


def test_reports_of_an_earlier_migration_are_replaced() -> None:
    heads = {
        "change_list.csv": b"the project's own",
        "gpu2npu_change_list.csv": header_line("change_list.csv") + b"a.py,1,1\r\n",
        "unknown_api.csv": header_line("unknown_api.csv"),
        "msFmkTranspltlog.txt": LOG_HEAD,
        "msFmkTranspltlog.txt.1": LOG_HEAD,
        "msFmkTranspltlog.txt.2": b"another program's",
    }
    chosen = choose_names(heads.keys(), heads)
    assert chosen.replaced == {
        "gpu2npu_change_list.csv",
        "unknown_api.csv",
        "msFmkTranspltlog.txt",
        "msFmkTranspltlog.txt.1",
    }
    assert chosen.names["change_list.csv"] == "gpu2npu_change_list.csv"
    assert chosen.names["msFmkTranspltlog.txt"] == "msFmkTranspltlog.txt"


def test_a_filled_in_launcher_is_retained() -> None:
    filled = launcher_bytes().replace(b"please input your shell script here", b"python train.py")
    chosen = choose_names({LAUNCHER_NAME}, {LAUNCHER_NAME: filled[:256]})
    assert chosen.retained_launcher and not chosen.replaced


def test_another_launcher_of_that_name_is_not_ours() -> None:
    chosen = choose_names({LAUNCHER_NAME}, {LAUNCHER_NAME: b"#!/bin/sh\ntorchrun train.py\n"})
    assert not chosen.retained_launcher
    assert chosen.names[LAUNCHER_NAME] == f"gpu2npu_{LAUNCHER_NAME}"


def test_which_names_are_worth_reading() -> None:
    assert may_be_report("gpu2npu_3_unknown_api.csv") and may_be_report("msFmkTranspltlog.txt.9")
    assert not may_be_report("train.csv") and not may_be_report("my_change_list.csv")
