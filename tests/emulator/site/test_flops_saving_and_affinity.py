import os

import pytest
import torch
import torch_npu


def test_all_names_of_the_release():
    names = ["npu_combine_tensors", "get_part_combined_tensor", "is_combined_tensor_valid", "FlopsCounter"]
    names += ["set_thread_affinity", "reset_thread_affinity", "save_async", "get_cann_version"]
    assert sorted(torch_npu.utils.__all__) == sorted(names)


def test_flops_are_counted_between_start_and_stop():
    x = torch.ones(4, 5).npu()
    counter = torch_npu.utils.FlopsCounter()
    counter.start()
    x @ x.t()
    assert counter.get_flops() == [160, 160]
    counter.pause()
    x @ x.t()
    counter.resume()
    x @ x.t()
    counter.stop()
    assert counter.get_flops() == [160, 320]


def test_saving_in_the_background_keeps_the_values_of_the_moment(tmp_path):
    x = torch.ones(3).npu()
    thread = torch_npu.utils.save_async({"x": x, "step": 3}, tmp_path / "x.pt")
    x.zero_()
    thread.join()
    loaded = torch.load(tmp_path / "x.pt")
    assert loaded["x"].tolist() == [1, 1, 1]
    assert loaded["step"] == 3


def test_the_process_stays_on_its_cores():
    before = os.sched_getaffinity(0)
    first = min(before)
    try:
        torch_npu.utils.set_thread_affinity([first, first])
        assert os.sched_getaffinity(0) == {first}
    finally:
        torch_npu.utils.reset_thread_affinity()
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ValueError, match="first and the last core"):
        torch_npu.utils.set_thread_affinity([2, 1])


def test_parts_of_combined_tensors():
    a, b = torch.ones(2, 2).npu(), torch.zeros(3).npu()
    combined = torch_npu.utils.npu_combine_tensors([a, b])
    assert combined.tolist() == [1, 1, 1, 1, 0, 0, 0]
    torch_npu.utils.get_part_combined_tensor(combined, 4, 3).fill_(7)
    assert b.tolist() == [7, 7, 7]
    assert torch_npu.utils.is_combined_tensor_valid(combined, [a, b])
    assert [torch_npu.get_storage_size(each) for each in (a, b, combined)] == [4, 3, 7]
    assert a.data_ptr() + 4 * 4 == b.data_ptr()
    assert not torch_npu.utils.is_combined_tensor_valid(combined, [a, torch.ones(3).npu()])
    with pytest.raises(RuntimeError, match="out of the range"):
        torch_npu.utils.get_part_combined_tensor(combined, 5, 3)
