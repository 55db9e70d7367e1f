import threading

import pytest

from gpu2npu.emulator.device import visible_npus


@pytest.mark.parametrize(
    ("npus", "visible", "expected"),
    [
        (None, None, tuple(range(8))),
        ("2", None, (0, 1)),
        ("0", None, ()),
        ("4", "1,3", (1, 3)),
        ("4", " 2 , 0", (2, 0)),
        ("4", "3,9,1", (3,)),
        ("4", "1,1,2", (1,)),
        ("4", "", ()),
        ("4", "-1", ()),
    ],
)
def test_the_environment_limits_and_renumbers(monkeypatch, npus, visible, expected):
    for name, value in (("GPU2NPU_NPUS", npus), ("ASCEND_RT_VISIBLE_DEVICES", visible)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert visible_npus.visible_npus() == expected


@pytest.mark.parametrize("npus", ["many", "-1", "129", "2.5"])
def test_a_number_of_npus_that_is_none_is_an_error(monkeypatch, npus):
    monkeypatch.setenv("GPU2NPU_NPUS", npus)
    with pytest.raises(RuntimeError, match="give the number of emulated NPUs, 0 to 128"):
        visible_npus.visible_npus()


def test_the_current_device_belongs_to_the_thread():
    seen = []

    def work():
        seen.append(visible_npus.current_device())
        visible_npus.set_device(3)
        seen.append(visible_npus.current_device())

    with visible_npus.device(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert visible_npus.current_device() == 5
    assert seen == [0, 3]
    assert visible_npus.current_device() == 0


def test_the_number_is_settled_by_the_first_use(monkeypatch):
    monkeypatch.setattr(visible_npus, "_count", None)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "0,1")
    assert visible_npus.device_count() == 2
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "0")
    assert visible_npus.device_count() == visible_npus.settle() == 1
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "0,1")
    assert visible_npus.device_count() == 1


def test_a_block_that_changes_nothing_ends_without_devices(monkeypatch):
    monkeypatch.setattr(visible_npus, "_count", 0)
    with visible_npus.device(-1):
        assert visible_npus.current_device() == 0
    assert visible_npus.current_device() == 0
