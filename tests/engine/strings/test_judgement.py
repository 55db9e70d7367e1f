"""A string is a device where its use says so; elsewhere it stays, and what is doubtful is reported."""

from __future__ import annotations

import pytest

from gpu2npu.engine import ProjectContext, migrate_source

DEVICES = [
    "x.to('cuda')",
    "x.to(device='cuda:1', non_blocking=True)",
    'torch.zeros(2, device="cuda")',
    "torch.load(f, 'cuda:0')",
    "torch.load(f, map_location=r'cuda')",
    "torch.autocast('cuda', enabled=True)",
    "torch.autocast(device_type='cuda')",
    "torch.Generator('cuda')",
    "torch.set_default_device('cuda')",
    "torch.cuda.set_rng_state(state, 'cuda')",
    "torch.cuda.synchronize('cuda')",
    "torch.cuda.Stream('cuda')",
    "if device == 'cuda' and n > 1: ...",
    "if 'cuda' in device: ...",
    "if 'cuda' in str(args.device): ...",
    "if x.device.type != 'cuda': ...",
    "if args.device in ('cpu', 'cuda'): ...",
    "if device.split(':')[0] == 'cuda': ...",
    "if device[:-2] == 'cuda': ...",
    "if devices[1:] == 'cuda': ...",
    "if cfg['device'] == 'cuda': ...",
    "if get_device() == 'cuda': ...",
    "kind = x.device.type\nif kind == 'cuda': ...",
    "def f(x, *, device='cuda'): ...",
    "f = lambda device='cuda': device",
    "class C:\n    device: str = 'cuda'",
    "class C:\n    device: str = field(default='cuda')",
    "DEVICE = 'cuda'",
    "self.target_device = 'cuda:0'",
    "teacher_device, student_device = 'cuda:0', 'cuda:1'",
    "name, device = pick(), 'cuda'",
    "name = pair, device = pick(), 'cuda'",
    "os.environ['DEVICE'] = 'cuda'",
    "device = 'cuda' if ok else 'cpu'",
    "device = ok and 'cuda' or 'cpu'",
    "device = device or 'cuda'",
    "where = where and 'cuda' or 'cpu'",
    "where = where or 'cuda' or 'cpu'",
    "where = ['cpu', 'cuda'][ok]",
    "config = {DEVICE: 'cuda'}",
    "places = {'cpu': 'cuda'}",
    "device_map = other = {'': 'cuda'}",
    "x = 'cpu' if no else ('cuda')",
    "where = 'cuda'\ntorch.zeros(2, device=where)",
    "def f():\n    where = 'cuda:1' if ok else None\n    if where == 'cuda:1':\n        x.to(where)",
    "def pick():\n    if ok:\n        return 'cuda'\n    return 'cpu'",
    "def default_device():\n    return 'cuda'",
    "parser.add_argument('--dev', default='cuda')",
    "parser.add_argument('--where', choices=('cpu', 'cuda'))",
    "page.Radio(['cuda', 'cpu'], label='Where', value='cuda')",
    "page.Menu('sort', options=['cpu', 'cuda'])",
    "class Net(Base, places=['cpu', 'cuda']): ...",
    "PLACES = ('cuda', 'cpu')\npage.Menu(options=PLACES, initial='cuda')",
    "field = {'choices': ['cpu', 'cuda'], 'default': 'cuda'}",
    "@click.option('--device', default='cuda')\ndef main(device): ...",
    "getattr(args, 'device', 'cuda')",
    "args.get('device', 'cuda')",
    "kwargs.setdefault('device', 'cuda')",
    "config = dict(device='cuda')",
    "devices.add(device='cuda')",
    "config = {'model': 1, 'device': 'cuda'}",
    "move_to_device(batch, 'cuda')",
    "set_map_location(batch, 'cuda')",
    "def load(path, teacher_map_location='cuda'): ...",
    "@pytest.mark.parametrize('device, n', [('cuda', 1)])\ndef test(device, n): ...",
    "def place(x, where, device): ...\nplace(1, 2, 'cuda')",
    "class Net:\n    def __init__(self, n, device): ...\nNet(1, 'cuda')",
    "import pytest\n@pytest.mark.parametrize('device', [pytest.param('cuda', marks=slow)])\ndef test(device): ...",
    "import pytest\nPLACES = [pytest.param('cpu'), pytest.param('cuda:0')]",
    "@pytest.mark.parametrize('device', ['cuda'])\ndef test(device): ...",
    "def kinds():\n    if ok:\n        yield 'cuda'\n    yield 'cpu'",
    "def devices():\n    yield 'cuda'",
    "class Kind(str, Enum):\n    CPU = 'cpu'\n    CUDA = 'cuda'",
    "class Device(StrEnum):\n    CUDA = 'cuda'",
    "for device in ['cpu', 'cuda']: ...",
    "Kind = Literal['cpu', 'cuda']",
    "for kind in ['cpu'] + (['cuda'] if ok else []): ...",
    "for kind in (['cuda'] if ok else []) + ['cpu']: ...",
    "for kind in ['cpu', *(['cuda'] if ok else [])]: ...",
    "match device:\n    case 'cuda': ...",
    "def f(d):\n    return int(d.replace('cuda:', '').strip('cuda:'))",
    "def f(d):\n    return d.removeprefix('cuda:') or d.lstrip('cuda:')",
    "def f(d):\n    return d.replace('cuda', 'cpu')",
    "def f(device):\n    return device.find('cuda'), device.rfind('cuda'), device.index('cuda'), device.count('cuda')",
    "def f(device):\n    return device.removeprefix('cuda') or device.lstrip('cuda')",
    "def f(device):\n    return device.rsplit('cuda'), device.rpartition('cuda')",
    "where = 'cuda' if ok else args.device",
    "def f(d):\n    if d == 'cpu': ...\n    elif d == 'cuda': ...",
    "def f(d):\n    assert d in ('cpu', 'cuda')\n    return d.startswith('cuda') or d.split('cuda:')",
    "def f(o):\n    return o.kind == 'cuda' if o.kind != 'cpu' else None",
    "x.to(f'cuda:{rank}')",
    "x.to(f'cuda:{rank % n}')",
    "gpu = 'cuda:' + str(rank)",
    'gpu = "cuda:{}".format(rank)',
    "gpu = 'cuda:{rank}'.format(rank=rank)",
    "gpu = 'cuda:%d' % rank",
    "anything('cuda:0')",
    "names = ['cuda:%d' % i for i in range(n)]",
    "available_devices.append('cuda')",
    "deviceType = 'cuda'",
    "device_to_use = 'cuda'",
    "device2 = 'cuda'",
    "move_to_device_if_any(x, 'cuda')",
    "@pytest.mark.parametrize('device_from, device_to', [('cuda', 'cuda')])\ndef test(): ...",
    "print(f\"{torch.zeros(2, device='cuda')} is one\")",
    "self.devices.insert(0, 'cuda')",
    "devices += ['cuda']",
    "if 'cuda' in (device_from, device_to): ...",
    "if getattr(device, 'type', None) == 'cuda': ...",
    "if kind in ('cuda', 'cpu', 'auto'): ...",
    "key = f\"{'cuda' if ok else 'cpu'}:{rank}\"",
    "where = f\"{'cuda' if ok else 'cpu'}\"",
    "if device in ('gpu', 'cuda'): ...",
    "if device in ('cpu', 'cuda', 'rocm'): ...",
    # The NPU's name near them does not keep CUDA's from an NPU.
    "x = y.to('cuda') if ok else log(y, tag='npu')",
    "def f(device='cuda'):\n    if not ok:\n        device = 'npu'",
    "def f(device='cuda', use_npu=False):\n    if use_npu:\n        device = 'npu'",
]


@pytest.mark.parametrize("text", DEVICES)
def test_devices(migrate, text: str) -> None:
    assert migrate(text) == text.replace("cuda", "npu")


UNCHANGED = [
    "import pytest\nLARGE = pytest.param(9, id='cuda')",
    "sources = Path(__file__).parent / 'cuda' / 'kernel.cu'",
    "device_dir = root / 'cuda'",
    "__all__ = ['cpu', 'cuda']",
    "__all__ = names = ['cpu', 'cuda']",
    "'''Runs on cuda.'''",
    "'cuda'",
    "print('cuda')",
    "eprint('cuda')",
    "rank_print('cuda')",
    "logger.info('cuda')",
    "log.debug('cuda:0')",
    "raise ValueError('cuda')",
    "assert ok, 'cuda'",
    "path = os.path.join(root, 'csrc', 'cuda', 'nms.cu')",
    "files = glob.glob('csrc/cuda/*.cu')",
    "importlib.import_module('ext.cuda')",
    "device = Path('cuda')",
    "device = Option(help='cuda')",
    "run_on(device=which('cuda'))",
    "parser.add_argument('--no-cuda', action='store_true', help='cuda')",
    "parser.add_argument('cuda')",
    "args.cuda = not args.no_cuda",
    "f'cuda version {v}'",
    "f'cuda: {v}'",
    "b'cuda'",
    "'cuda extension'.split()",
    "x = 'cudnn'",
    "if device.type in ['cuda', 'npu', 'cpu']: ...",
    "if device_type in ['cuda', 'rocm']: ...",
    "d = {'cuda': 1, 'npu': 2}",
    "device = 'npu' if use_npu else 'cuda'",
    "device = 'cuda' if not is_npu_available() else 'npu'",
    "x = y.to('cuda') if kind != 'npu' else y.to('npu')",
    "# device = 'cuda'",
    "print(f\"on {'cuda' if ok else 'cpu'}\")",
    "raise ValueError('torch.cuda.is_available() is false')",
    "options = {'cuda': True, 'seed': 1}",
    "use = find() != ''\noptions = {'cuda': use, 'seed': 1}",
    "args['seed'] = 1\nargs['cuda'] = not args['cpu']\nif args['cuda']: ...",
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_what_is_no_device_stays_without_a_word(rulebook, text: str) -> None:
    result = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert (result.content, result.findings) == (None, ())


DOUBTFUL = [
    "class Library(Enum):\n    CUDA = 'cuda'",
    "class Names:\n    CPU = 'cpu'\n    CUDA = 'cuda'",
    "def f(request):\n    if request.param == 'cuda': ...",
    "if str(device)[:4] == 'cuda': ...",
    "kind = name = pick()\nif kind.startswith(name) or name.startswith(kind) or kind == 'cuda': ...",
    "where = 'cuda'\ndef f(where):\n    return torch.zeros(2, device=where)",
    "self.use_cuda_ipc = device == 'cuda' and shared",
    "build(enable_nvtx=not device.type == 'cuda')",
    "mode = 'cuda'",
    "run_on('cuda')",
    "fingerprint('cuda')",
    "draw_blueprint('cuda')",
    "results['cuda'] = 1",
    "available = {'cuda': True}",
    "torch.save({'cpu': 1, 'cuda': torch.random.initial_seed()}, path)",
    "info = {'cpu': 1, 'cuda': 2}\njson.dump(info, file)",
    "d = {'cuda': 1}",
    "build(kind='cuda')",
    "if kind == 'cuda': ...",
    "def kind():\n    return 'cuda'",
    "parser.add_argument('--engine', default='cuda')",
    "parser.add_argument('--profile_sort', choices=['cpu', 'cuda'])",
    "parser.add_argument('--sort-by', default='cuda')",
    "comm = 'nccl'",
    "names.append('cuda')",
    "device = 'cuda' ':0'",
    "device = 'cuda:' f'{card}'",
    "device = f'cuda' f':{card}' ''",
    "record = {'cpu': cpu, 'cuda': cuda}",
    "name, device = 'cuda', pick()",
    "where = where or 'cuda'",
    "for kind in ['a', *(['cuda'] if ok else [])]: ...",
    "names = ['a'] + ['cuda']",
    "table = {'cpu': slow, 'name': 'cuda'}",
    "devices = {'cpu': cpu, 'cuda': cuda}",
    "move_to_device(x, labels={'': 'cuda'})",
    "show({'': 'cuda'})",
    "def f(x, location_map='cuda'): ...",
    "@pytest.mark.parametrize('name, mode', [('a', 'cuda')])\ndef test(name, mode): ...",
    "device = 'cuda'.upper()",
    "device = pick() if kinds & {'cuda'} else None",
    "(device,) = pick(), 'cuda'",
    "pair = ('cuda', 1)",
    "page.Radio(['fast', 'exact'], value='cuda')",
    "DEVICE_LIBS = ['cuda', 'cudnn']",
    "device_kernels = {'a': 'cuda'}",
    "if hasattr(model, 'cuda'): ...",
    "rng_state['torch.cuda']",
    "ACCELERATORS = ('cpu', 'cuda', 'auto', 'tpu')",
    "if accelerator in ('cuda', 'auto'): ...",
    "key = f\"{'cuda' if ok else 'cpu'}_time_total\"",
    "text = f\"on {'cuda' if ok else 'cpu'}\"",
]


@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_is_doubtful_stays_and_is_reported(rulebook, text: str) -> None:
    result = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert result.content is None
    assert [finding.kind.value for finding in result.findings] == ["review"]


@pytest.mark.parametrize(
    ("other", "is_edited"),
    [("", True), ("import json\njson.dump({'t': TABLE}, out)", False), ("t = TABLE if c else d\nt['cuda']", False)],
)
def test_keys_of_another_file_go_with_those_that_read_them(project, other: str, is_edited: bool) -> None:
    reads = "from tables import TABLE\nTABLE['cuda'](), TABLE.get('cuda')\n" + other
    results = project({"tables.py": "TABLE = {'cuda': f, 'cpu': g}\n", "run.py": reads})
    assert [each.content is not None for each in results.values()] == [is_edited] * 2


@pytest.mark.parametrize("other", ["torch.save(table, path)", "def f(saved): return saved['cuda']"])
def test_reads_of_a_key_stay_as_the_key_does(rulebook, other: str) -> None:
    text = f"table = {{'cuda': 1, 'cpu': 2}}\nif 'cuda' in table: print(table['cuda'], table.get('cuda'))\n{other}\n"
    assert migrate_source(text.encode(), "a.py", rulebook, ProjectContext()).content is None


BACKENDS = [
    "import pytest\n@pytest.mark.parametrize('kind', ['gloo', pytest.param('nccl', marks=slow)])\ndef test(kind): ...",
    "dist.init_process_group(backend='nccl')",
    "import torch.distributed as dist\ndist.init_process_group('nccl', 'env://')",
    "import torch.distributed as dist\ndist.new_group(ranks, backend='nccl')",
    "from torch.distributed import init_process_group as init\ninit('nccl')",
    "parser.add_argument('--dist-backend', default='nccl', type=str)",
    "group.add('--gpu_backend', '-gpu_backend', default='nccl', type=str)",
    "group.add('--backend', default='nccl')",
    "self.assertEqual(dist.get_backend(), 'nccl')",
    "NAMES = {'nccl': 'nccl', 'gloo': fast}",
    "self.assertIn(dist.get_backend(), ['nccl'])",
    "parser.add_argument('--backend', choices=['nccl', 'gloo'], default='nccl')",
    "backend = 'nccl' if gpu else 'gloo'",
    "if args.dist_backend == 'nccl': ...",
    "if dist.get_backend() == 'nccl': ...",
    "if backend in {'nccl', 'gloo'}: ...",
    "class Args:\n    ddp_backend: str = 'nccl'",
]
BACKEND_MAPS = [
    "dist.init_process_group('cpu:gloo,cuda:nccl')",
    "init(backend='cuda:nccl')",
    "name = 'cuda:nccl,cpu:gloo'",
]


@pytest.mark.parametrize("text", BACKEND_MAPS)
def test_a_backend_for_each_device(migrate, text: str) -> None:
    assert migrate(text) == text.replace("cuda:nccl", "npu:hccl")


PATCHED = {
    "app.engine.torch.cuda.device_count": "app.engine.torch.npu.device_count",
    "app.engine.t.cuda.device_count": "app.engine.t.cuda.device_count",
    "app.own.torch.cuda.device_count": "app.own.torch.cuda.device_count",
    "other.engine.torch.cuda.device_count": "other.engine.torch.cuda.device_count",
}


@pytest.mark.parametrize(("before", "after"), PATCHED.items())
def test_what_a_test_patches_through_a_module(project, before: str, after: str) -> None:
    test = "from unittest.mock import patch\nwith patch({!r}): ...\n"
    files = {
        "app/__init__.py": "",
        "app/engine.py": "import torch\nt = torch\n",
        "app/own.py": "torch = object()\n",
        "test_app.py": test.format(before),
    }
    assert (project(files)["test_app.py"].content or files["test_app.py"].encode()).decode() == test.format(after)


REFERENCES = [
    "if x.type() == 'torch.cuda.FloatTensor': ...",
    "monkeypatch.setattr('torch.cuda.is_available', lambda: True)",
    "KEYS = {'torch.cuda.FloatTensor': 1}",
]


@pytest.mark.parametrize("text", REFERENCES)
def test_names_of_the_api_in_strings(migrate, text: str) -> None:
    assert migrate(text) == text.replace("cuda", "npu")


@pytest.mark.parametrize("text", BACKENDS)
def test_backends(migrate, text: str) -> None:
    assert text.replace("nccl", "hccl").splitlines()[-1] in migrate(text).splitlines()


def test_code_inside_parts_of_a_string(migrate) -> None:
    text = "print('torch.cuda: ' f'{torch.cuda.device_count()} ' 'cuda' f'cuda {x.cuda()}')\n"
    assert migrate(text) == "print('torch.cuda: ' f'{torch.npu.device_count()} ' 'cuda' f'cuda {x.npu()}')\n"


TABLES = {
    "backends go with the devices they are for": (
        "b = {'cuda': 'nccl', 'cpu': 'gloo', 'hpu': 'hccl'}[device.type]",
        "b = {'npu': 'hccl', 'cpu': 'gloo', 'hpu': 'hccl'}[device.type]",
    ),
    "a table that knows the NPU": ("b = {'cuda': 'nccl', 'npu': 'hccl', 'cpu': 'gloo'}[device.type]",) * 2,
    "look-ups in a table": (
        "T = {'cuda': f, 'cpu': g}\nT['cuda']()\nT.get('cuda')",
        "T = {'npu': f, 'cpu': g}\nT['npu']()\nT.get('npu')",
    ),
    "look-ups in a table of the object": (
        "class A:\n    def __init__(self): self.t = {'cuda': f, 'cpu': g}\n    def run(self): self.t['cuda']()",
        "class A:\n    def __init__(self): self.t = {'npu': f, 'cpu': g}\n    def run(self): self.t['npu']()",
    ),
    "look-ups of elements of a table": (
        "T = {'a': {'cuda': f, 'cpu': g}}\nfor row in T.values(): row['cuda']()\nT.copy()['a']['cuda']",
    )
    * 2,
    "look-ups in a copy": ("T = {'cuda': f, 'cpu': g}\ndict(T)['cuda']()",) * 2,
    "a table beside one that has the NPU": (
        "T = {'a': {'npu': f}, 'b': {'cuda': g, 'cpu': h}}\nT['b']['cuda']()",
        "T = {'a': {'npu': f}, 'b': {'npu': g, 'cpu': h}}\nT['b']['npu']()",
    ),
    "look-ups in another table": ("T = {'cuda': f, 'cpu': g}\nT = load()\nT['cuda']()",) * 2,
    "the device of every part": ("load(device_map={'': 'cuda'})", "load(device_map={'': 'npu'})"),
    "no device": ("labels = {'': 'cuda'}",) * 2,
}


@pytest.mark.parametrize(("before", "after"), TABLES.values(), ids=TABLES)
def test_tables(migrate, before: str, after: str) -> None:
    assert migrate(before) == after


TYPES = {
    "a field": ("kind: Literal['cpu', 'cuda'] = 'cuda'", "kind: Literal['cpu', 'npu'] = 'npu'"),
    "a field of a name that tells": ("device: t.Literal['cuda'] = 'cuda'", "device: t.Literal['npu'] = 'npu'"),
    "a parameter": (
        "def f(x: Literal['nccl', 'gloo'] | None = 'nccl'): ...",
        "def f(x: Literal['hccl', 'gloo'] | None = 'hccl'): ...",
    ),
    "a result": (
        "def f() -> Literal['cuda', 'cpu']: return 'cuda'",
        "def f() -> Literal['npu', 'cpu']: return 'npu'",
    ),
    "a union": (
        "def f() -> Device | Literal['cuda'] | Literal['cpu'] | None: ...",
        "def f() -> Device | Literal['npu'] | Literal['cpu'] | None: ...",
    ),
    "a union that knows the NPU": ("def f() -> Literal['cuda'] | Literal['npu']: ...",) * 2,
    "an alias": ("Kind = Literal['cuda', 'cpu']", "Kind = Literal['npu', 'cpu']"),
    "a type that knows the NPU": ("kind: Literal['cuda', 'npu'] = 'cuda'",) * 2,
    "no device": ("kind: Literal['cuda', 'triton'] = 'cuda'",) * 2,
}


@pytest.mark.parametrize(("before", "after"), TYPES.values(), ids=TYPES)
def test_literal_types_go_with_their_values(migrate, before: str, after: str) -> None:
    assert migrate(before) == after


COMMANDS = {
    "words": ("run(['train.py', '--device', 'cuda'])", "run(['train.py', '--device', 'npu'])"),
    "one word": ("run(['train.py', '--eval-device=cuda:0'])", "run(['train.py', '--eval-device=npu:0'])"),
    "a line with several": (
        "system('CUDA_VISIBLE_DEVICES=0 train.py --device cuda --dist-backend nccl')",
        "system('ASCEND_RT_VISIBLE_DEVICES=0 train.py --device npu --dist-backend hccl')",
    ),
    "a line that is made": ("system(f'train.py --device cuda:{rank}')", "system(f'train.py --device npu:{rank}')"),
    "a line in parts": (
        "line = ('CUDA_VISIBLE_DEVICES=0 '\n    f'train.py {x} ' '--device cuda')",
        "line = ('ASCEND_RT_VISIBLE_DEVICES=0 '\n    f'train.py {x} ' '--device npu')",
    ),
    "several lines and nothing else": (
        'JOB = """\nexport CUDA_VISIBLE_DEVICES=0\ntrain.py --device cuda\n"""',
        'JOB = """\nexport ASCEND_RT_VISIBLE_DEVICES=0\ntrain.py --device npu\n"""',
    ),
    "other options": ("run(['build.py', '--sources', 'cuda', '--no-cuda', '--with=cuda'])",) * 2,
}


@pytest.mark.parametrize(("before", "after"), COMMANDS.values(), ids=COMMANDS)
def test_options_of_commands(migrate, before: str, after: str) -> None:
    assert migrate(before) == after


GIVEN_TO_LIGHTNING = {
    "a choice": "Trainer(accelerator='gpu' if found else 'cpu')",
    "a name": "kind = 'gpu' if found else 'cpu'\nTrainer(accelerator=kind)",
    "an option": "parser.add_argument('--accelerator', default='gpu')",
    "what a function gives": "def pick(d):\n    if d == 'mps':\n        return 'mps', 1\n    return 'gpu', 0",
}


@pytest.mark.parametrize("text", GIVEN_TO_LIGHTNING.values(), ids=GIVEN_TO_LIGHTNING)
def test_the_accelerator_of_lightning_is_reported_where_it_is_chosen(project, text: str) -> None:
    (finding,) = project({"a.py": f"from lightning import Trainer\n{text}\n"})["a.py"].findings
    assert finding.rule == "lightning-accelerator"


def test_a_gpu_of_the_programs_own_is_not_lightnings(project) -> None:
    assert project({"a.py": "from lightning import Trainer\nplace = 'gpu'\nshow(place)\n"})["a.py"].findings == ()
    assert project({"a.py": "Trainer(accelerator='gpu')\n"})["a.py"].findings == ()


@pytest.mark.parametrize("table", ["value", "{'CPU': 1, 'GPU': 2}"])
def test_a_key_is_renamed_where_it_is_tested_if_it_is_where_it_is_read(project, table: str) -> None:
    head = f"import ray\ndef f(value):\n    table = {table}\n    if 'CPU' in table: ...\n"
    code = head + "    return table['GPU'] if 'GPU' in table else 0\n"
    (file,) = project({"a.py": code}).values()
    renamed = table != "value"
    assert (file.content or code.encode()).decode() == (code.replace("GPU", "NPU") if renamed else code)
    assert [found.rule for found in file.findings] == ([] if renamed else ["ray-bundle-gpu"] * 2)
