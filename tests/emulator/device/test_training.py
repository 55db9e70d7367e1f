"""Whole models train on the npu as they train on the CPU."""

import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, stride=2, bias=False), nn.BatchNorm2d(12), nn.LeakyReLU(0.1), nn.AdaptiveAvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(48, 5)

    def forward(self, x):
        return F.log_softmax(self.head(self.features(x).flatten(1)), dim=1)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.positions = nn.Parameter(torch.zeros(6, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 11)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.head(self.layers(self.tokens(x) + self.positions, mask=mask, is_causal=True))


def train(model, batches, loss_of, optimizer_of, device):
    model = copy.deepcopy(model).to(device)
    optimizer = optimizer_of(model.parameters())
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x.to(device)), y.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=False),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_cnn_trains_to_the_cpus_losses(name):
    torch.manual_seed(0)
    model, batches = Cnn(), [(torch.randn(6, 1, 12, 12), torch.randint(0, 5, (6,))) for _ in range(5)]
    expected, weights = train(model, batches, F.nll_loss, OPTIMIZERS[name], "cpu")
    losses, ours = train(model, batches, F.nll_loss, OPTIMIZERS[name], "npu:1")
    assert losses == pytest.approx(expected, rel=1e-4)
    if name == "sgd":
        for weight, own in zip(weights, ours, strict=True):
            torch.testing.assert_close(own, weight, rtol=1e-3, atol=1e-4)


def test_a_transformer_trains_to_the_cpus_losses():
    torch.manual_seed(1)
    model, batches = Transformer(), [(torch.randint(0, 11, (4, 6)), torch.randint(0, 11, (4, 6))) for _ in range(5)]

    def loss_of(logits, target):
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    expected, _ = train(model, batches, loss_of, OPTIMIZERS["adamw"], "cpu")
    losses, _ = train(model, batches, loss_of, OPTIMIZERS["adamw"], "npu")
    assert losses == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision_trains(dtype):
    torch.manual_seed(2)
    model = Transformer().npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("npu", enabled=dtype is torch.float16)
    x = torch.randint(0, 11, (4, 6), device="npu")
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=dtype):
            loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_moving_a_module_keeps_its_parameters_tied_and_known_to_an_optimizer():
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7, bias=False))
    model[1].weight = model[0].weight
    weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    before = weight.detach().clone()
    for move, place in (
        (lambda: model.npu(), "npu:0"),
        (lambda: model.to("npu:1"), "npu:1"),
        (lambda: model.cpu(), "cpu"),
    ):
        move()
        assert model[0].weight is model[1].weight is weight
        assert str(weight.device) == place
        optimizer.zero_grad()
        model(torch.arange(7, device=place)).pow(2).sum().backward()
        assert str(weight.grad.device) == place
        optimizer.step()
        assert not torch.equal(weight.detach().cpu(), before)
        before = weight.detach().cpu().clone()


def test_data_may_come_from_the_other_device_but_not_from_nowhere():
    x = torch.ones(2)
    x.data = torch.full((3,), 2.0, device="npu:1")
    assert str(x.device) == "npu:1" and x.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.ones(2, device="meta")


@pytest.mark.filterwarnings("ignore")
def test_an_encoder_for_nested_tensors_says_what_to_do(borrowing):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x, padding = torch.ones(2, 3, 8), torch.tensor([[False, False, False], [False, True, True]])
    nested = nn.TransformerEncoder(layer, 1).npu().eval()
    with torch.no_grad(), pytest.raises(NotImplementedError, match="enable_nested_tensor=False"):
        nested(x.npu(), src_key_padding_mask=padding.npu())
    plain = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    with torch.no_grad():
        expected = plain(x, src_key_padding_mask=padding)
        actual = plain.npu()(x.npu(), src_key_padding_mask=padding.npu()).cpu()
    torch.testing.assert_close(actual[~padding], expected[~padding])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "computed",
    [
        lambda nested: nested + 1,
        torch.relu,
        lambda nested: nested.to_padded_tensor(0.0),
        lambda nested: torch.softmax(nested, -1),
        lambda nested: nn.functional.linear(nested, torch.ones(5, 3, device="npu")),
    ],
)
def test_nothing_is_computed_of_nested_tensors(computed):
    nested = torch.nested.as_nested_tensor([torch.ones(2, 3, device="npu"), torch.ones(4, 3, device="npu")])
    with pytest.raises(RuntimeError):
        computed(nested)


def test_what_a_tensor_costs_does_not_grow_with_the_list():
    def calls(count):
        lists = [torch.ones(2, device="npu") for _ in range(count)]
        seen = 0

        def watch(frame, event, argument):
            nonlocal seen
            seen += event == "call"

        torch._foreach_sqrt(lists)
        sys.setprofile(watch)
        try:
            torch._foreach_sqrt(lists)
        finally:
            sys.setprofile(None)
        return seen

    assert calls(80) < 2.2 * calls(40)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_can_be_made_and_nothing_else():
    x = torch.ones(3, 4, device="npu", requires_grad=True)
    nested = torch.nested.as_nested_tensor([x, torch.zeros(2, 4, device="npu")])
    assert nested.is_nested and nested.requires_grad and (nested.dim(), nested.size(0)) == (3, 2)
    for refused in (repr, torch.Tensor.unbind, torch.Tensor.cpu, lambda given: given.to_padded_tensor(0.0)):
        with pytest.raises(NotImplementedError, match="makes nested tensors of layout"):
            refused(nested)
    host = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(NotImplementedError, match="nested tensors"):
        host.npu()
