import json

import numpy as np
import pytest
import torch
import torch_npu


@pytest.fixture
def configured(tmp_path):
    """Begin a dump with settings; ends it afterwards. Gives a function that returns what was written, by name."""

    def begin(**settings):
        config = tmp_path / "dump.json"
        config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path / "out"), **settings}}))
        torch.npu.init_dump()
        torch.npu.set_dump(str(config))

    def written():
        return {path.name: np.load(path) for path in sorted((tmp_path / "out").rglob("*.npy"))}

    yield begin, written
    torch.npu.finalize_dump()


def test_inputs_and_outputs_of_operators(configured):
    begin, written = configured
    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(3, 2)
    on_npu, other = x.npu(), y.npu()
    begin(dump_mode="all", dump_op_switch="on")
    (on_npu @ other).bfloat16()
    torch.npu.finalize_dump()
    on_npu + 1
    files = written()
    names = [name.split(".") for name in files]
    assert {(name[0], *name[-3:-1]) for name in names} == {
        ("MatMulV2", "input", "0"),
        ("MatMulV2", "input", "1"),
        ("MatMulV2", "output", "0"),
        ("Cast", "input", "0"),
        ("Cast", "output", "0"),
    }
    values = {(name[0], *name[-3:-1]): value for name, value in zip(names, files.values(), strict=True)}
    np.testing.assert_array_equal(values["MatMulV2", "input", "0"], x.numpy())
    np.testing.assert_array_equal(values["MatMulV2", "output", "0"], (x @ y).numpy())
    assert values["Cast", "output", "0"].dtype == np.float32


@pytest.mark.parametrize("settings", [{"dump_op_switch": "off"}, {}])
def test_operators_are_dumped_where_the_switch_says_so(configured, settings):
    begin, written = configured
    begin(**settings)
    torch.ones(2, device="npu").add(1)
    assert not written()


def test_outputs_alone_are_the_default(configured):
    begin, written = configured
    begin(dump_op_switch="on")
    torch.ones(2, device="npu")
    assert [name.split(".")[-3] for name in written()] == ["output"] * len(written()) != []


def test_what_is_no_configuration(tmp_path):
    with pytest.raises(AssertionError, match="path does not exists"):
        torch.npu.set_dump(str(tmp_path / "none.json"))
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"dump": {"dump_path": "x", "dump_mode": "some"}}')
    with pytest.raises(ValueError, match=r"wrong.json is not a configuration of a dump: KeyError\('some'\)"):
        torch.npu.set_dump(str(wrong))


def test_the_folder_of_the_optimization_engine(tmp_path):
    torch.npu.set_aoe(str(tmp_path / "a" / "graphs"))
    assert (tmp_path / "a" / "graphs").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Value of dump_path is invalid"):
        torch.npu.set_aoe(str(tmp_path / "file" / "graphs"))


def test_a_tensor_of_a_checkpoint_from_before_2_1(tmp_path):
    """Call what `torch.load` calls with the parts that it finds in the file."""
    torch.serialization.add_safe_globals([torch_npu.utils.storage._rebuild_npu_tensor])
    stored = torch.arange(6.0, device="npu")
    storage = torch.storage.TypedStorage(wrap_storage=stored.untyped_storage(), dtype=torch.float32, _internal=True)
    with pytest.warns(UserWarning, match=r"before 2\.1"):
        tensor = torch_npu.utils.storage._rebuild_npu_tensor(storage, 0, (2, 3), (3, 1), True, {}, 29)
    assert tensor.requires_grad
    assert tensor.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
