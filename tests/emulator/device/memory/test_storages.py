import io
from multiprocessing.reduction import ForkingPickler

import pytest
import torch


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoints_come_back_where_requested(weights_only):
    def load(map_location):
        return torch.load(saved(state), map_location=map_location, weights_only=weights_only)

    base = torch.arange(6.0, device="npu:1").view(2, 3)
    state = {"a": base, "view": base.t()[1:], "half": base.bfloat16(), "cpu": torch.ones(2)}
    back = load(None)
    assert [t.device for t in back.values()] == [*[torch.device("npu:1")] * 3, torch.device("cpu")]
    assert back["a"].tolist() == base.tolist()
    assert back["view"].tolist() == base.t()[1:].tolist()
    assert back["view"].untyped_storage().data_ptr() == back["a"].untyped_storage().data_ptr()
    back["a"][0, 1] = 9
    assert back["view"][0, 0].item() == 9
    assert {t.device.type for t in load("cpu").values()} == {"cpu"}
    assert {t.device for t in load("npu:3").values()} == {torch.device("npu:3")}
    assert {t.device for t in load(torch.device("npu", 2)).values()} == {torch.device("npu:2")}
    mapped = load({"npu:1": "npu:0", "cpu": "npu:4"})
    assert [t.get_device() for t in mapped.values()] == [0, 0, 0, 4]
    moved = load(lambda storage, location: storage)
    assert {t.device.type for t in moved.values()} == {"cpu"}
    assert load("npu")["a"].get_device() == torch.npu.current_device()


def test_a_checkpoint_names_the_npu_as_a_real_one_does():
    import zipfile

    with zipfile.ZipFile(saved(torch.ones(2, device="npu:1"))) as archive:
        pickled = next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
    assert b"npu:1" in pickled
    assert b"FloatStorage" in pickled
    assert b"gpu2npu" not in pickled


def test_a_checkpoint_of_a_larger_machine_says_what_to_do():
    file = saved(torch.ones(2, device="npu:7"))
    broken = io.BytesIO(file.getvalue().replace(b"npu:7", b"npu:9"))
    with pytest.raises(RuntimeError, match=r"deserialize object on NPU device 9 but torch.npu.device_count\(\) is 8"):
        torch.load(broken, weights_only=False)


def test_training_state_survives():
    model = torch.nn.Linear(3, 2).npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(4, 3).npu()).sum().backward()
    optimizer.step()
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    state = torch.load(file, map_location="cpu")
    twin = torch.nn.Linear(3, 2)
    twin.load_state_dict(state["model"])
    twin.npu()
    restored = torch.optim.AdamW(twin.parameters(), lr=0.1)
    restored.load_state_dict(state["optimizer"])
    assert restored.state[twin.weight]["exp_avg"].device.type == "npu"
    for each, its_optimizer in ((model, optimizer), (twin, restored)):
        its_optimizer.zero_grad()
        each(torch.ones(4, 3).npu()).sum().backward()
        its_optimizer.step()
    assert torch.equal(model.weight, twin.weight)


def test_storages():
    storage = torch.UntypedStorage(8, device="npu:1")
    assert storage.device == torch.device("npu:1")
    assert storage.nbytes() == 8
    tensor = torch.arange(3.0, device="npu")
    assert tensor.untyped_storage().cpu().device.type == "cpu"
    assert tensor.untyped_storage().clone().device == torch.device("npu:0")
    assert tensor.untyped_storage().data_ptr() == tensor.data_ptr() != 0


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_move_to_an_npu():
    stored = torch.arange(3.0).untyped_storage()
    moved = stored.npu()
    assert (moved.device, moved.is_npu, stored.is_npu) == (torch.device("npu:0"), True, False)
    assert moved.tolist() == stored.tolist()
    assert moved.npu() is moved
    assert moved.npu(1).device == torch.device("npu:1")
    typed = torch.TypedStorage(wrap_storage=stored, dtype=torch.float32, _internal=True)
    assert (typed.npu().tolist(), typed.npu().is_npu) == ([0.0, 1.0, 2.0], True)
    loaded = torch.load(saved(torch.ones(2)), map_location=lambda storage, location: storage.npu())
    assert loaded.device == torch.device("npu:0")
    quantized = torch.TypedStorage(wrap_storage=stored, dtype=torch.qint8, _internal=True)
    with pytest.raises(RuntimeError, match=r"Cannot create npu storage as torch.qint8 dtype"):
        quantized.npu()


def test_sharing_between_processes_is_refused_in_clear_words():
    with pytest.raises(RuntimeError, match=r"shares no memory between processes: send tensor.cpu\(\)"):
        ForkingPickler.dumps(torch.ones(2, device="npu"))
    assert torch.ones(2, device="npu").share_memory_().is_npu  # nothing to do, as for CUDA
    assert ForkingPickler.dumps(torch.ones(2))


def test_a_storage_gives_its_memory_back_and_takes_it_again():
    tensor = torch.ones(1024, device="npu:5")
    storage = tensor.untyped_storage()
    before = torch.npu.memory_allocated(5)
    storage.resize_(0)
    assert (storage.size(), storage.nbytes(), tensor[1:].untyped_storage().nbytes()) == (0, 0, 0)
    assert torch.npu.memory_allocated(5) == before - 4096 - 512
    storage.resize_(4096)
    assert storage.size() == 4096
    assert torch.npu.memory_allocated(5) == before
    tensor.fill_(2)
    assert tensor.sum().item() == 2048
    with pytest.raises(NotImplementedError, match="cannot grow a storage of 4096 bytes"):
        storage.resize_(8192)
    del storage, tensor
    assert torch.npu.memory_allocated(5) == before - 4096 - 512


def test_what_reduces_a_tensor_is_torch_npus():
    from torch_npu.multiprocessing.reductions import rebuild_npu_tensor

    tensor = torch.ones(2, 3, device="npu:0")
    rebuild, given = torch.multiprocessing.reductions.reduce_tensor(tensor)
    assert rebuild is rebuild_npu_tensor and (given[1], given[6], given[8]) == (tensor.shape, 0, 24)
    assert torch.multiprocessing.reductions.reduce_tensor(tensor.cpu())[0] is not rebuild
