import pickle

import pytest
import torch
import torch.utils.checkpoint

DRAWS = {
    "randn": lambda: torch.randn(100, device="npu"),
    "rand": lambda: torch.rand(100, device="npu"),
    "randint": lambda: torch.randint(0, 1000, (100,), device="npu"),
    "randperm": lambda: torch.randperm(100, device="npu"),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(100, device="npu")),
    "normal_": lambda: torch.empty(100, device="npu").normal_(3, 2),
    "bernoulli": lambda: torch.bernoulli(torch.full((100,), 0.5, device="npu")),
    "exponential_": lambda: torch.empty(100, device="npu").exponential_(),
    "multinomial": lambda: torch.multinomial(torch.ones(100, device="npu"), 50),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_repeats_bit_for_bit(name):
    draw = DRAWS[name]
    torch.npu.manual_seed(7)
    first, second = draw(), draw()
    torch.npu.manual_seed(7)
    assert torch.equal(first, draw())
    assert torch.equal(second, draw())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", DRAWS)
def test_state_round_trips_as_a_byte_tensor(name):
    state = torch.npu.get_rng_state()
    assert state.dtype is torch.uint8
    assert state.device.type == "cpu"
    first = DRAWS[name]()
    torch.npu.set_rng_state(state)
    assert torch.equal(first, DRAWS[name]())


def test_the_state_is_a_seed_and_an_offset():
    """16 bytes, as torch_npu's NPUGeneratorImpl::get_state gives them; an operator draws at one offset."""
    torch.npu.manual_seed(5)
    assert torch.npu.get_rng_state().view(torch.int64).tolist() == [5, 0]
    torch.rand(1000, device="npu")
    assert torch.npu.get_rng_state().view(torch.int64).tolist() == [5, 12]
    torch.nn.functional.dropout(torch.ones(4, device="npu"))
    assert torch.npu.get_rng_state().view(torch.int64).tolist() == [5, 24]
    generator = torch.Generator("npu").manual_seed(-1)
    assert generator.initial_seed() == 2**64 - 1
    assert generator.set_offset(8).get_offset() == 8
    assert generator.get_state().tolist() == [255] * 8 + [8] + [0] * 7
    generator.set_state(torch.tensor([7, 0, 0, 0, 0, 0, 0, 0], dtype=torch.uint8))
    assert (generator.initial_seed(), generator.get_offset()) == (7, 0)
    assert generator.seed() == generator.initial_seed() != 7
    assert torch.Generator("npu").initial_seed() == torch.Generator().initial_seed()


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (torch.zeros(15, dtype=torch.uint8), RuntimeError, "RNG state is wrong size"),
        (torch.get_rng_state(), RuntimeError, "RNG state is wrong size"),
        (torch.zeros(16), TypeError, "RNG state must be a torch.ByteTensor"),
        (torch.tensor([0] * 8 + [2] + [0] * 7, dtype=torch.uint8), RuntimeError, "offset must be a multiple of 4"),
    ],
)
def test_what_is_no_state_is_refused_and_changes_nothing(state, error, words):
    before = torch.npu.get_rng_state()
    with pytest.raises(error, match=words):
        torch.npu.set_rng_state(state)
    assert torch.equal(torch.npu.get_rng_state(), before)


def test_another_offset_draws_other_numbers_with_every_kernel():
    for draw in DRAWS.values():
        torch.npu.manual_seed(1)
        first = draw()
        generator = torch.npu.default_generators[0].manual_seed(1)
        generator.set_offset(4)
        assert not torch.equal(draw(), first)


def test_generators_that_share_a_state():
    generator = torch.Generator("npu").manual_seed(3)
    shared, clone = generator.graphsafe_get_state(), generator.clone_state()
    torch.rand(2, generator=shared, device="npu")
    assert generator.get_offset() == shared.get_offset() == 12
    assert clone.get_offset() == 0
    clone.graphsafe_set_state(generator)
    assert clone.get_offset() == 12


def test_recomputed_activations_drop_the_same_elements():
    x = torch.ones(200, device="npu", requires_grad=True)
    for reentrant in (True, False):
        x.grad = None
        y = torch.utils.checkpoint.checkpoint(torch.nn.functional.dropout, x, use_reentrant=reentrant)
        y.sum().backward()
        assert torch.equal(x.grad, y)


def test_a_state_in_a_checkpoint(tmp_path):
    torch.save({"rng": torch.npu.get_rng_state_all()}, tmp_path / "checkpoint.pt")
    expected = torch.rand(3, device="npu")
    torch.npu.set_rng_state_all(torch.load(tmp_path / "checkpoint.pt")["rng"])
    assert torch.equal(torch.rand(3, device="npu"), expected)


def test_torchs_seed_seeds_every_npu_and_devices_are_independent():
    torch.manual_seed(3)
    first = [torch.rand(4, device=f"npu:{index}").cpu() for index in range(3)]
    torch.manual_seed(3)
    assert torch.npu.initial_seed() == 3
    torch.rand(4, device="npu:0")
    assert torch.equal(torch.rand(4, device="npu:1").cpu(), first[1])
    assert torch.equal(first[0], first[1])
    cpu = torch.rand(4)
    torch.manual_seed(3)
    torch.rand(9, device="npu:0")
    assert torch.equal(torch.rand(4), cpu)


def test_all_states():
    states = torch.npu.get_rng_state_all()
    assert len(states) == torch.npu.device_count() == len(torch.npu.default_generators)
    first = torch.rand(3, device="npu:2")
    torch.npu.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="npu:2"), first)
    torch.npu.seed_all()
    assert torch.npu.get_rng_state(0).equal(torch.npu.get_rng_state(1))


def test_a_generator_of_ones_own():
    generator = torch.Generator(device="npu:1")
    assert generator.device == torch.device("npu:1")
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device == torch.device("cpu")
    generator.manual_seed(5)
    before = torch.npu.get_rng_state(1)
    first = torch.randn(5, generator=generator, device="npu:1")
    assert torch.equal(torch.npu.get_rng_state(1), before)
    generator.manual_seed(5)
    assert torch.equal(torch.randn(5, generator=generator, device="npu:1"), first)
    restored = pickle.loads(pickle.dumps(generator))
    assert restored.device == generator.device
    assert torch.equal(restored.get_state(), generator.get_state())
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        torch.randn(5, generator=torch.Generator(), device="npu:1")


def test_fork_rng_restores_the_npu():
    torch.npu.manual_seed(11)
    expected = torch.rand(3, device="npu")
    torch.npu.manual_seed(11)
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        torch.rand(100, device="npu")
    assert torch.equal(torch.rand(3, device="npu"), expected)


def test_distributions_have_the_right_moments():
    torch.manual_seed(0)
    normal = torch.randn(20000, device="npu")
    assert abs(normal.mean().item()) < 0.03
    assert abs(normal.std().item() - 1) < 0.03
    uniform = torch.rand(20000, device="npu")
    assert 0 <= uniform.min().item() <= uniform.max().item() < 1
    assert abs(uniform.mean().item() - 0.5) < 0.02
    with_dropout = torch.nn.functional.dropout(torch.ones(20000, device="npu"), 0.25)
    assert abs((with_dropout == 0).float().mean().item() - 0.25) < 0.02
    assert with_dropout.max().item() == pytest.approx(4 / 3)
    assert sorted(torch.randperm(50, device="npu").tolist()) == list(range(50))
