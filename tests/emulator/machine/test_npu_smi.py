"""npu-smi's tables against what the real program prints, and its numbers against processes that describe themselves."""

import os
import re

import pytest

from gpu2npu.emulator.machine import npu_smi, processes
from gpu2npu.emulator.soc import current_soc

# Rows of `npu-smi info` as public issues show them, their values replaced by the emulated ones.
HBM = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0                   Version: 24.1.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B2               | OK            | NA          NA                0    / 0             |
| 0                         | 0000:01:00.0  | 37          0    / 0          2048 / 65536         |
+===========================+===============+====================================================+
| 1     910B2               | OK            | NA          NA                0    / 0             |
| 0                         | 0000:02:00.0  | 0           0    / 0          0    / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | {pid:<13} | python                   | 2048                    |
+===========================+===============+====================================================+
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""
DDR = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0                                   Version: 24.1.0                                       |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 0       310P3                 | OK              | NA           NA                0     / 0             |
| 0       0                     | 0000:01:00.0    | 0            0    / 24576                            |
+===============================+=================+======================================================+
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |
+===============================+=================+======================================================+
| No running processes found in NPU 0                                                                    |
+===============================+=================+======================================================+
"""


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Two NPUs, of which this process uses the first: 2 GiB, 37 percent of the time."""
    monkeypatch.setenv("GPU2NPU_RUN_FOLDER", str(tmp_path / "run"))
    monkeypatch.setenv("GPU2NPU_NPUS", "2")
    monkeypatch.delenv("GPU2NPU_SOC", raising=False)
    current_soc.cache_clear()
    use = processes.NpuUse(0, 2 << 30, 37.4)
    processes.write(processes.EmulatedProcess(os.getpid(), "python", "Ascend910B2", 0.0, (use,)))
    yield
    current_soc.cache_clear()


def chip(monkeypatch, name, count):
    monkeypatch.setenv("GPU2NPU_SOC", name)
    monkeypatch.setenv("GPU2NPU_NPUS", str(count))
    current_soc.cache_clear()


def answer(capsys, *arguments):
    assert npu_smi.main(["info", *arguments]) == 0
    return capsys.readouterr().out


def test_the_table_of_chips_with_hbm(capsys):
    assert answer(capsys) == HBM.format(pid=os.getpid())


def test_the_table_of_chips_with_ddr(capsys, monkeypatch):
    chip(monkeypatch, "Ascend310P", 1)
    assert answer(capsys) == DDR


def test_cards_of_two_dies(capsys, monkeypatch):
    chip(monkeypatch, "Ascend910_93", 4)
    rows = [line for line in answer(capsys).splitlines() if "0000:" in line]
    assert [row.split("|")[1].split() for row in rows] == [["0", "0"], ["1", "1"], ["0", "2"], ["1", "3"]]
    assert answer(capsys, "-l").count("Chip Count                     : 2") == 2


def test_the_dead_are_not_shown_and_forgotten(capsys, tmp_path):
    gone = processes.EmulatedProcess(2**22 + 1, "python", "Ascend910B2", 0.0, (processes.NpuUse(1, 1 << 30, 1.0),))
    processes.write(gone)
    assert "No running processes found in NPU 1" in answer(capsys)
    assert [path.stem for path in (tmp_path / "run").iterdir()] == [str(os.getpid())]


def test_processes_of_other_chips_are_on_another_machine(capsys, monkeypatch):
    chip(monkeypatch, "Ascend910A", 1)
    assert "No running processes found in NPU 0" in answer(capsys)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("usages", {"HBM Capacity(MB)": "65536", "HBM Usage Rate(%)": "3", "Aicore Usage Rate(%)": "37"}),
        ("memory", {"HBM Capacity(MB)": "65536", "DDR Capacity(MB)": "0"}),
        ("common", {"HBM Usage Rate(%)": "3", "Aicore Count": "24", "NPU Real-time Power(W)": "NA"}),
        ("temp", {"Temperature(C)": "NA"}),
        ("power", {"NPU Real-time Power(W)": "NA"}),
        ("health", {"Health Status": "OK"}),
        ("board", {"Software Version": "24.1.0", "Chip Count": "1", "PCIe Bus Info": "0000:01:00.0"}),
    ],
)
def test_questions_about_one_card(capsys, kind, expected):
    lines = [line for line in answer(capsys, "-t", kind, "-i", "0").splitlines() if line]
    assert all(re.fullmatch(r"\t.{31}: .*", line) for line in lines)
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(": ") for line in lines)}
    assert fields["NPU ID"] == "0"
    assert expected.items() <= fields.items()


def test_processes_of_one_card(capsys):
    text = answer(capsys, "-t", "proc-mem", "-i", "0")
    assert re.search(rf"Process id:{os.getpid()}\s+Process name:python\s+Process memory\(MB\):2048\n", text)


def test_lists_that_scripts_cut_by_columns(capsys):
    assert [line.split()[3] for line in answer(capsys, "-l").splitlines() if "ID" in line] == ["0", "1"]
    heads, *rows = answer(capsys, "-m").splitlines()
    assert heads.split("  ")[0].strip() == "NPU ID"
    assert [row.split() for row in rows if "Mcu" not in row] == [
        ["0", "0", "0", "Ascend", "910B2"],
        ["1", "0", "1", "Ascend", "910B2"],
    ]


def test_watch_prints_a_row_for_each_chip_until_it_is_stopped(capsys, monkeypatch):
    def stop(seconds):
        assert seconds == 2.0
        raise KeyboardInterrupt

    monkeypatch.setattr(npu_smi.time, "sleep", stop)
    with pytest.raises(KeyboardInterrupt):
        npu_smi.main(["info", "watch", "-d", "2", "-s", "am"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:]] == [["0", "0", "37", "3"], ["1", "0", "0", "0"]]
    assert lines[0] == "NpuID(Idx)  ChipId(Idx) AI Core(%)  Memory(%)   "


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["info", "-t", "usages", "-i", "9"], "there is no NPU 9"),
        (["info", "-t", "usages", "-i", "0", "-c", "3"], "there is no chip 3 on NPU 0"),
        (["info", "-t", "usages"], "-t usages needs -i CARD"),
        (["info", "-t", "nonsense", "-i", "0"], "invalid choice: 'nonsense'"),
        (["info", "watch", "-s", "xyz"], "-s takes letters of"),
    ],
)
def test_wrong_questions_get_one_sentence(capsys, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        npu_smi.main(arguments)
    assert ended.value.code == 1
    assert sentence in capsys.readouterr().err


def test_nothing_can_be_set(capsys):
    assert npu_smi.main(["set", "-t", "reset", "-i", "0"]) == 1
    assert "nothing to set" in capsys.readouterr().err
