import importlib
import itertools
from types import SimpleNamespace

import pytest
import torch
import torch_npu
from torch_npu.testing.common_distributed import init_pg

from gpu2npu.emulator.device import events
from gpu2npu.emulator.soc import DEFAULT_SOC, soc_named


def test_torch_npu_names_one_module():
    assert torch.npu is torch_npu.npu
    assert torch_npu.__version__ == torch.__version__.partition("+")[0]
    for name in ("amp", "amp.autocast_mode", "amp.grad_scaler", "memory", "random", "streams"):
        assert importlib.import_module(f"torch.npu.{name}") is importlib.import_module(f"torch_npu.npu.{name}")
    from torch.npu.amp import GradScaler, autocast

    assert torch.npu.amp.autocast is autocast
    assert torch.npu.amp.GradScaler is GradScaler
    assert torch.npu.memory.memory_allocated is torch.npu.memory_allocated
    assert torch.npu.random.manual_seed is torch.npu.manual_seed
    assert torch.npu.streams.Stream is torch.npu.Stream


def test_npus_are_there_and_cuda_is_not():
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 8
    assert torch.npu.is_initialized() in (True, False)
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(1).cuda()
    assert torch.accelerator.current_accelerator().type == "npu"
    assert torch.accelerator.device_count() == 8


def test_the_chip_describes_itself():
    assert torch.npu.get_device_name(0) == torch.npu.get_device_name(device_name=0) == soc_named(DEFAULT_SOC).name
    assert torch.npu.get_soc_version() == torch_npu._C._npu_get_soc_version() == 221
    assert torch_npu.version.__version__ == torch_npu.__version__
    properties = torch.npu.get_device_properties("npu:1")
    assert properties.name == soc_named(DEFAULT_SOC).name
    assert properties.total_memory == soc_named(DEFAULT_SOC).memory == 64 << 30
    assert torch.npu.get_device_capability() is None
    assert torch.npu.is_bf16_supported()
    assert torch.npu.can_device_access_peer(0, 1)
    torch.npu.ipc_collect()
    torch.npu.init()
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = False
    torch.npu.matmul.allow_hf32 = True
    torch.npu.matmul.allow_hf32 = False  # other tests compare with the CPU


@pytest.mark.parametrize(
    ("version", "names", "has_id"),
    [
        ("2.6.0.post0", False, False),
        ("2.7.1.post0", True, False),
        ("2.8.0.post0", True, False),
        ("2.8.0.post2", True, True),
    ],
)
def test_a_uuid_by_release(monkeypatch, version, names, has_id):
    monkeypatch.setattr("gpu2npu.emulator.device.dispatch.support_table.version", lambda: version)
    properties = torch.npu.get_device_properties(0)
    assert hasattr(properties, "uuid") is names
    assert (getattr(properties, "uuid", None) is not None) is has_id


@pytest.mark.parametrize(("value", "expected"), [("8.0", (8, 0)), ("9.10", (9, 10))])
def test_a_compute_capability_for_code_that_wants_one(monkeypatch, value, expected):
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", value)
    assert torch.npu.get_device_capability() == expected


def test_a_compute_capability_in_another_form(monkeypatch):
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "sm90")
    with pytest.warns(UserWarning, match=r"'sm90': give it as major\.minor"):
        assert torch.npu.get_device_capability() is None


def test_properties_that_gpus_have():
    properties = torch.npu.get_device_properties(0)
    assert len(str(properties.uuid)) == 36
    assert len(properties.uuid.bytes) == 16
    assert [getattr(properties, name) for name in ("is_integrated", "gcnArchName", "warp_size")] == [None] * 3


def test_devices_that_are_not_there():
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.npu.can_device_access_peer(-1, 0)
    with pytest.raises(AssertionError, match="Invalid peer device id"):
        torch.npu.can_device_access_peer(0, 8)
    for wrong in ("0", 0.0, None, True):
        with pytest.raises(TypeError, match="device must be an int"):
            torch.npu.get_device_limit(wrong)


def test_the_number_of_a_device():
    assert torch.npu._get_device_index("npu:3") == torch.npu._get_device_index(torch.npu.device("npu:3")) == 3
    assert torch.npu._get_device_index("npu", optional=True) == torch.npu._get_device_index(None, optional=True) == 0
    assert torch.npu._get_device_index("cpu", allow_cpu=True) == -1
    for wrong, optional in (("npu", False), (None, False), ("cpu", True)):
        with pytest.raises(ValueError, match="Expected a"):
            torch.npu._get_device_index(wrong, optional=optional)


def test_modes_of_synchronization():
    torch.npu.set_sync_debug_mode("error")
    assert torch.npu.get_sync_debug_mode() == 2
    for wrong in (3, "loud"):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of"):
            torch.npu.set_sync_debug_mode(wrong)
    torch.npu.set_sync_debug_mode(0)
    assert torch.npu.get_sync_debug_mode() == 0


def test_streams_of_any_accelerator_bring_their_device(device_restored):
    before = torch.npu.current_stream(1), torch.npu.current_stream(0)
    torch.accelerator.set_stream(torch.npu.Stream("npu:1"))
    assert torch.accelerator.current_device_index() == 1
    for each in before:
        torch.accelerator.set_stream(each)
    assert torch.accelerator.current_device_index() == 0
    assert issubclass(torch.npu.Event, torch.Event)
    assert not issubclass(torch.npu.Stream, torch.Event)


def test_streams_and_events_describe_themselves():
    event = torch.npu.Event()
    assert repr(event) == "<torch_npu.npu.Event uninitialized>"
    with pytest.raises(RuntimeError, match="not recorded"):
        event.recorded_time()
    event.record()
    assert event.recorded_time() > 0
    assert repr(torch.npu.current_stream()) == "<torch_npu.npu.Stream device=npu:0 npu_stream=0x0>"


@pytest.fixture
def device_restored():
    yield
    torch.npu.set_device(0)


def test_the_current_device_decides_where_a_bare_npu_is(device_restored):
    torch.npu.set_device("npu:2")
    assert torch.npu.current_device() == 2
    here = torch.device("npu:2")
    module = torch.nn.Linear(1, 1)
    made = [
        torch.zeros(1, device="npu"),
        torch.randn(1, device="npu"),
        torch.arange(3, device=torch.device("npu")),
        torch.tensor([1.0], device="npu"),
        torch.as_tensor([1.0], device="npu"),
        torch.ones(1).npu(),
        torch.ones(1).to("npu"),
        torch.ones(1).to(device="npu", dtype=torch.half),
        torch.ones(1).to(torch.device("npu")),
        torch.ones(1).type("torch.npu.HalfTensor"),
        torch.npu.FloatTensor([1.0]),
        module.to("npu").weight,
        torch.nn.Linear(1, 1, device="npu").weight,
        torch.ones(1, device="npu:2").new_zeros(3),
    ]
    with torch.device("npu"):
        made += [torch.ones(2), torch.tensor(1.0)]
    assert {tensor.device for tensor in made} == {here}
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        assert torch.ones(1).npu().get_device() == 1
    with torch.npu.device_of(torch.ones(1, device="npu:3")):
        assert torch.npu.current_device() == 3
    assert torch.npu.current_device() == 2
    with torch.npu.device(-1), torch.npu.device(None):
        assert torch.npu.current_device() == 2


def test_an_invalid_device_index_raises():
    for use in (
        lambda: torch.npu.set_device(8),
        lambda: torch.ones(1).to("npu:8"),
        lambda: torch.zeros(1, device="npu:64"),
        lambda: torch.npu.get_device_name(9),
        lambda: torch.npu.synchronize("npu:8"),
        lambda: torch.npu.device(11),
    ):
        with pytest.raises(RuntimeError, match="Invalid NPU device ordinal"):
            use()
    with pytest.raises(ValueError, match="Expected a npu device"):
        torch.npu.set_device("cpu")


def test_streams_and_events(monkeypatch):
    stream = torch.npu.Stream()
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("npu:0")
    assert torch.npu.current_stream() == torch.npu.default_stream() != stream
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        x = torch.ones(3, device="npu") * 2
        x.record_stream(stream)
    assert torch.npu.current_stream() == torch.npu.default_stream()
    torch.npu.current_stream().wait_stream(stream)
    other = torch.npu.Stream(device="npu:1", priority=-1)
    with torch.npu.stream(other):
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    assert stream.query()
    assert other.priority == 0
    stream.synchronize()
    torch.npu.synchronize()
    assert x.tolist() == [2, 2, 2]

    monkeypatch.setattr(events, "time", SimpleNamespace(perf_counter=itertools.count(5, 0.25).__next__))
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    end.record(torch.npu.current_stream())
    end.synchronize()
    assert start.elapsed_time(end) == 250
    stream.wait_event(end)
    assert stream.record_event().query()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        torch.npu.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="must be recorded"):
        start.elapsed_time(torch.npu.Event(enable_timing=True))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("FloatTensor", torch.float32),
        ("HalfTensor", torch.float16),
        ("BFloat16Tensor", torch.bfloat16),
        ("DoubleTensor", torch.float64),
        ("LongTensor", torch.int64),
        ("IntTensor", torch.int32),
        ("ShortTensor", torch.int16),
        ("CharTensor", torch.int8),
        ("ByteTensor", torch.uint8),
        ("BoolTensor", torch.bool),
    ],
)
def test_legacy_tensor_types(name, dtype):
    kind = getattr(torch.npu, name)
    made = kind([1, 0])
    assert made.dtype is dtype
    assert made.is_npu
    assert isinstance(made, kind)
    assert not isinstance(made.cpu(), kind)
    assert kind(2, 3).shape == (2, 3)
    assert made.type() == f"torch.npu.{name}"
    assert torch.ones(2).type(kind).dtype is dtype
    assert torch.ones(2).npu().type(f"torch.npu.{name}").dtype is dtype


def test_modules_move_and_pinned_memory_is_accepted():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).npu(1)
    assert {t.device for t in module.state_dict().values()} == {torch.device("npu:1")}
    assert module.half()[0].weight.dtype is torch.half
    assert module.float()(torch.ones(3, 2).npu(1)).shape == (3, 2)
    assert {t.device.type for t in module.cpu().parameters()} == {"cpu"}
    pinned = torch.ones(2).pin_memory()
    assert pinned.is_pinned()
    assert not torch.ones(2).is_pinned()
    assert torch.empty(2, pin_memory=True).is_pinned()
    assert pinned.npu(non_blocking=True).to("cpu", non_blocking=True).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2).npu().pin_memory()


def test_lazy_modules_move_before_they_have_a_shape():
    assert torch.nn.LazyLinear(2).npu()(torch.ones(1, 3).npu()).device.type == "npu"


def test_a_data_loader_pins_its_batches():
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers)
        batches = [(x.npu(non_blocking=True), y.npu()) for x, y in loader]
        assert torch.cat([x for x, _ in batches]).tolist() == list(range(8))


def test_libraries_may_import_torch_npus_own_operators():
    from torch_npu import npu_fusion_attention

    assert npu_fusion_attention is torch.ops.npu.npu_fusion_attention
    assert not hasattr(torch_npu, "fusion_attention")


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
@pytest.mark.parametrize("kind", [torch.npu.HalfTensor, "torch.npu.HalfTensor"])
def test_the_default_tensor_type_may_be_the_npus(kind):
    torch.set_default_tensor_type(kind)
    try:
        made = torch.rand(2)
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert made.type() == "torch.npu.HalfTensor"
    assert torch.rand(2).type() == "torch.FloatTensor"


def test_events_of_torch_time_an_npu():
    start, end = (torch.Event(device="npu", enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    assert start.device == torch.device("npu") and isinstance(torch.Event("cpu"), torch._C.Event)


def test_ranks_of_a_test_meet_in_a_file(monkeypatch):
    given = {}
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda **options: given.update(options))
    init_pg("gloo", 2, 1, "/tmp/store")
    assert given == {"backend": "gloo", "world_size": 2, "rank": 1, "init_method": "file:///tmp/store"}
