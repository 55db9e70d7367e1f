import gc
import os
import platform
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from gpu2npu.emulator.device.memory import memory
from gpu2npu.emulator.launch import emulating
from gpu2npu.emulator.soc import current_soc

MIB = 1 << 20
BLOCK = MIB + 512  # what a tensor of 1 MiB takes: with 32 bytes more, in steps of 512


@pytest.fixture
def npu():
    """An NPU on which no other test holds memory."""
    gc.collect()
    torch.npu.reset_peak_memory_stats(5)
    base = torch.npu.memory_allocated(5)
    return torch.device("npu:5"), base


def test_live_storages_are_counted_and_forgotten(npu):
    device, base = npu
    x = torch.zeros(MIB // 4, device=device)
    assert torch.npu.memory_allocated(device) == base + BLOCK
    view = x.view(2, -1)[1]
    del x
    assert torch.npu.memory_allocated(device) == base + BLOCK
    del view
    assert torch.npu.memory_allocated(device) == base
    assert torch.npu.max_memory_allocated(5) == base + BLOCK


def test_a_storage_that_is_taken_back_raises_the_peak(npu):
    device, base = npu
    storage = torch.zeros(3 * MIB // 4, device=device).untyped_storage()
    storage.resize_(0)
    other = torch.zeros(MIB // 4, device=device)
    storage.resize_(3 * MIB)
    assert torch.npu.memory_allocated(device) == base + 4 * MIB + 2 * 512
    storage.resize_(0)
    assert torch.npu.memory_allocated(device) == base + other.nbytes + 512
    assert torch.npu.max_memory_allocated(device) == base + 4 * MIB + 2 * 512


def test_blocks_are_rounded_as_the_caching_allocator_rounds_them(npu):
    device, base = npu
    held = [torch.ones(1, device=device), torch.ones(129, device=device)]
    assert torch.npu.memory_allocated(device) == base + 512 + 1024
    assert len(held) == 2


def test_results_borrowed_results_and_gradients_are_counted(npu, plain, borrowing):
    device, base = npu
    x = torch.ones(MIB // 4, device=device, requires_grad=True)
    y = plain(x.detach())
    assert torch.npu.memory_allocated(device) == base + 2 * BLOCK
    (x * 2).sum().backward()
    assert torch.npu.memory_allocated(device) == base + 3 * BLOCK
    del x, y
    gc.collect()
    assert torch.npu.memory_allocated(device) == base


def test_reserved_memory_stays_until_the_cache_is_emptied(npu):
    device, _ = npu
    torch.npu.empty_cache()
    x = torch.zeros(16 * MIB, device=device)
    reserved = torch.npu.memory_reserved(device)
    del x
    assert torch.npu.memory_reserved(device) == torch.npu.memory_cached(device) == reserved >= 64 * MIB
    free, total = torch.npu.mem_get_info(device)
    assert (free, total) == (current_soc().memory - reserved, current_soc().memory)
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved(device) < reserved
    assert torch.npu.max_memory_reserved(device) == torch.npu.max_memory_cached(device) >= reserved


def test_statistics_and_summary(npu):
    device, base = npu
    before = torch.npu.memory_stats(device)
    x = torch.zeros(MIB // 4, device=device)
    stats = torch.npu.memory_stats(device)
    assert stats["allocated_bytes.all.current"] == base + BLOCK
    assert stats["allocation.all.current"] == before["allocation.all.current"] + 1
    assert stats["reserved_bytes.all.current"] == torch.npu.memory_reserved(device)
    lines = torch.npu.memory_summary(device).splitlines()
    assert {len(each) for each in lines} == {77}
    assert lines[1].split() == ["|", "PyTorch", "NPU", "memory", "summary,", "device", "ID", "5", "|"]
    usage = [each.strip() for each in lines[7].split("|")][1:-1]
    assert usage[:2] == ["Allocated memory", memory.readable(base + BLOCK)]
    assert len(torch.npu.memory_summary(device, abbreviated=True).splitlines()) == len(lines) - 18
    assert torch.npu.memory_allocated("npu:5") == torch.npu.memory_allocated(5)
    del x


def test_pytorchs_questions_for_any_accelerator_are_answered(npu):
    device, base = npu
    x = torch.zeros(MIB // 4, device=device)
    assert torch.accelerator.memory_allocated(5) == base + BLOCK == torch.npu.memory_allocated(device)
    assert torch.accelerator.max_memory_allocated(5) == torch.npu.max_memory_allocated(5)
    assert torch.accelerator.memory_stats(5)["allocated_bytes.all.current"] == base + BLOCK
    torch.accelerator.reset_peak_memory_stats(5)
    torch.accelerator.empty_cache()
    del x


def test_memory_runs_out_at_the_chips_size():
    with pytest.raises(
        torch.OutOfMemoryError, match=r"NPU out of memory. Tried to allocate 65.00 GiB \(NPU 0; 64.00 GiB"
    ):
        torch.empty(65 << 30, dtype=torch.uint8, device="npu:0")


def test_a_result_too_large_runs_out_too(monkeypatch, npu):
    device, base = npu
    x = torch.ones(MIB, device=device)
    monkeypatch.setattr(memory, "current_soc", lambda: type("Small", (), {"memory": base + 6 * MIB}))
    with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory"):
        x + x
    assert torch.npu.memory_allocated(device) == base + 4 * MIB + 512


@pytest.mark.parametrize("compute", [lambda x: x + 1, lambda x: x.exp(), lambda x: torch.add(x, 1, out=x[:0])])
def test_a_result_too_large_for_the_host_runs_out_too(compute):
    spread = torch.ones(1, 1, device="npu").expand(1 << 30, 1 << 30)
    with pytest.raises(torch.OutOfMemoryError, match=r"NPU out of memory\. Tried to allocate 4294967296\.00 GiB"):
        compute(spread)


def test_a_process_may_be_given_a_fraction_of_the_memory(npu):
    device, base = npu
    torch.npu.set_per_process_memory_fraction((base + 3 * MIB) / current_soc().memory, device)
    try:
        x = torch.zeros(MIB // 2, device=device)
        with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory"):
            x + x
    finally:
        torch.npu.set_per_process_memory_fraction(1.0, device)
    assert torch.npu.memory_allocated(device) == base + 2 * MIB + 512
    assert (x + x).sum().item() == 0
    with pytest.raises(TypeError, match="must be `float`"):
        torch.npu.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        torch.npu.set_per_process_memory_fraction(1.5)


def test_memory_that_the_chip_has_and_the_host_has_not():
    with pytest.raises(MemoryError) as refused:
        np.empty(1 << 60, np.uint8)
    refused.value.shape = (1 << 20,)
    assert str(memory.exhausted(refused.value, 0)).startswith("NPU out of memory: the emulated NPU 0 lives in host mem")


def test_running_out_is_counted_and_reported_in_torch_npus_words(monkeypatch, npu):
    device, base = npu
    before = torch.npu.memory_stats(device)["num_ooms"]
    monkeypatch.setattr(memory, "current_soc", lambda: type("Small", (), {"memory": base + 2 * MIB}))
    x = torch.zeros(MIB // 4, device=device)
    words = (
        r"^NPU out of memory\. Tried to allocate 2\.00 MiB \(NPU 5; .* total capacity; .* already allocated; "
        r".* current active; .* free; .* reserved in total by PyTorch\)\.If reserved memory is >> allocated memory try "
        r"setting max_split_size_mb to avoid fragmentation\."
    )
    with pytest.raises(torch.OutOfMemoryError, match=words):
        torch.cat([x, x])
    assert torch.npu.memory_stats(device)["num_ooms"] == before + 1


RESIDENT = """
import gc, torch, torch_npu

def resident(field="VmRSS"):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))

warm = torch.ones(1000, device="npu")
kept = [warm + 1, warm.relu(), warm.half().float(), torch.cat([warm, warm]), warm.clone()]
gc.collect()
before, allocated = resident(), torch.npu.memory_allocated()
x = torch.ones(4 << 20, device="npu")
kept += [x, x + 1, x.relu(), x.half().float(), torch.cat([x, x]), x.clone(), x.cpu().npu(), x.softmax(0)]
views = [each.view(-1, 2)[:, 1] for each in kept]
kept[-1].add_(1)
gc.collect()
print(resident() - before, torch.npu.memory_allocated() - allocated, resident("VmHWM") - before)
"""


def test_the_bytes_of_a_tensor_are_held_once():
    ran = subprocess.run(
        [sys.executable, "-c", RESIDENT],
        env=emulating(os.environ, python=sys.executable, npus=1),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    grown, allocated, peak = map(int, ran.stdout.split())
    assert allocated == 9 * (16 << 20) + 8 * 512  # of 8 tensors, one of 32 MiB
    assert 0.9 * allocated < grown < allocated + 2 * (16 << 20)  # a second copy would be twice as much
    assert peak < allocated + 4 * (16 << 20)  # what one operator may need beside its result


@pytest.mark.parametrize("make", [torch.exp, torch.empty_like], ids=["like its operand", "new"])
def test_no_update_of_another_thread_is_lost(make):
    """A listener is called amid the accounting of a block, where another thread may make one of its own."""
    device = torch.device("npu:5")
    x = torch.ones(8, device=device)
    before, others = torch.npu.memory_allocated(device), []

    class Other:
        def allocated(self, address, size, index, total, reserved):
            memory.stop_listening(self)
            thread = threading.Thread(target=lambda: others.append(torch.empty(8, device=device)))
            thread.start()
            thread.join()

        def freed(self, address, size, index, total, reserved):
            pass

    memory.listen(Other())
    y = make(x)
    assert torch.npu.memory_allocated(device) == before + 2 * 512
    del y, others[:]
    assert torch.npu.memory_allocated(device) == before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int16], ids=str)
def test_copies_in_another_dtype_and_from_the_host_are_counted(dtype):
    x = torch.ones(MIB // 4, device="npu:5")
    base = torch.npu.memory_allocated(5)
    made = x.to(dtype), x.cpu().to(dtype).to("npu:5"), x.to(dtype).clone()
    assert torch.npu.memory_allocated(5) == base + sum(each.nbytes + 512 for each in made)
    del made
    assert torch.npu.memory_allocated(5) == base


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library decides itself what it keeps")
def test_freed_memory_is_there_for_the_next_tensor():
    program = (
        "import resource, torch, torch_npu\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "def mask(): return torch.ones(2048, 2048, dtype=torch.bool, device='npu').triu(1)\n"
        "mask(); before = faults()\n"
        "for _ in range(10): mask()\n"
        "print(faults() - before)\n"
    )
    environment = emulating(os.environ, python=sys.executable)
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 2048, "each of the 20 blocks has 1,024 pages"
