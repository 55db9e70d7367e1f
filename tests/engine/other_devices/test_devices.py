"""Devices that are given to packages that know no NPU, and devices that other code uses as well."""

import textwrap

import pytest


def found(project, code):
    """The migrated text, None where it stays, and the messages of the findings about devices of packages."""
    migrated = project({"a.py": textwrap.dedent(code)})["a.py"]
    apis = [each.api for each in migrated.findings if "device" in each.message and "xgboost" in each.rule]
    return migrated.content and migrated.content.decode(), apis


def test_what_only_the_package_reads_stays(project):
    code = """
        import torch
        import xgboost

        class Booster:
            def __init__(self):
                use_gpu = torch.cuda.is_available()
                self.device = "cuda" if use_gpu else "cpu"
                parameters = {"device": self.device}
                self.model = xgboost.train(parameters, data)

            def move(self, number):
                self.model.set_param({"device": f"cuda:{number}"})
    """
    content, apis = found(project, code)
    assert content is None
    assert apis == ["torch.cuda.is_available()", '"cuda" if use_gpu else "cpu"', 'f"cuda:{number}"']


def test_a_default_of_the_parameters_name_is_a_name_of_the_module(project):
    code = """
        import torch
        import xgboost

        device = "cuda"

        def made(device=device):
            return xgboost.XGBClassifier(device=device)
    """
    assert found(project, code) == (None, ['"cuda"'])


def test_what_torch_reads_too_is_migrated_and_reported(project):
    code = """
        import torch
        import xgboost

        device = "cuda" if torch.cuda.is_available() else "cpu"
        data = torch.ones(3, device=device)
        model = xgboost.XGBClassifier(device=device)
    """
    content, apis = found(project, code)
    assert 'device = "npu" if torch.npu.is_available() else "cpu"' in content
    assert apis == ["device"]


def test_tensors_in_its_calls_are_on_the_npu(project):
    code = """
        import torch
        import xgboost

        data = xgboost.DMatrix(torch.ones(3, device="cuda"), labels.cuda())
    """
    content, apis = found(project, code)
    assert 'torch.ones(3, device="npu"), labels.npu()' in content
    assert apis == ['torch.ones(3, device="cuda")', "labels.cuda()"]


def test_a_tensor_on_the_npu_that_it_is_given_is_reported(project):
    code = """
        import cupy
        import torch

        data = torch.ones(3).cuda()
        print(data.mean())
        array = cupy.asarray(data)
    """
    migrated = project({"a.py": textwrap.dedent(code)})["a.py"]
    assert b"torch.ones(3).npu()" in migrated.content
    assert [each.message for each in migrated.findings if each.api == "data"] == [
        "CuPy computes on CUDA devices only. It is given what is on the NPU now: give it a copy on the CPU here."
    ]


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("'cuda'", "give it the CPU here"),
        ("f'cuda:{number}'", "give it the CPU here"),
        ("'cuda:{}'.format(number)", "give it the CPU here"),
        ("'cuda' if number else 'cpu'", "give it the CPU here"),
        ("torch.device('cuda')", "give it the CPU here"),
        ("torch.ones(3).cuda()", "give it a copy on the CPU here"),
        ("torch.ones(3, device='cuda') + 1", "give it a copy on the CPU here"),
        ("torch.ones(3).cuda()\ndevice = 'cuda'", "give it the CPU here"),
    ],
)
def test_the_advice_is_for_what_the_package_is_given(project, value, advice):
    code = f"import torch\nimport xgboost\ndevice = {value}\nprint(device)\nxgboost.train(device)\n"
    (message,) = [each.message for each in project({"a.py": code})["a.py"].findings if each.api == "device"]
    assert message.endswith(f": {advice}.")


def test_what_goes_to_other_parameters_moves(project):
    code = """
        import torch
        import xgboost

        def make(data, device, **options):
            print(data)
            return xgboost.train(device, **options)

        make(torch.ones(2).cuda(), "cuda:0", device_of="cuda:1")

        def other(device, **options):
            print(device)
            return xgboost.train(**options)

        other(device="cuda:2", name="cuda:3")

        def last(data, device):
            print(data)
            return xgboost.train(device=device)

        last(data, **{"device": "cuda:4"})
    """
    content, apis = found(project, code)
    assert 'make(torch.ones(2).npu(), "cuda:0", device_of="cuda:1")' in content
    assert 'other(device="npu:2", name="cuda:3")' in content
    assert apis == ['"cuda:0"', '"cuda:1"', '"cuda:3"', '"cuda:4"']


def test_what_may_be_a_tensor_is_judged_beside_it(project):
    code = "import xgboost\nclass Kit:\n    is_cuda = False\ny = x.is_cuda\nxgboost.train(device='cuda')\n"
    assert "is_cuda" in [each.api for each in project({"a.py": code})["a.py"].findings]


def test_its_objects_stay_where_they_are_and_what_their_methods_give_moves(project):
    code = """
        import torch
        import xgboost

        model = xgboost.train(data)
        model.cuda()
        found = model.predict(data).cuda()
        other = xgboost.train(data).cuda(1)
    """
    content, apis = found(project, code)
    assert "model.cuda()" in content and "predict(data).npu()" in content and "train(data).cuda(1)" in content
    assert apis == ["cuda", "cuda"]


def test_a_module_of_the_project_is_no_such_package(project):
    code = "import xgboost\nmodel = xgboost.train(device='cuda')\n"
    files = {"a.py": code, "xgboost.py": "def train(device):\n    pass\n"}
    assert b"device='npu'" in project(files)["a.py"].content


def test_a_default_that_only_the_package_reads_stays(project):
    code = """
        import torch
        import xgboost

        def fit(data, device="cuda"):
            return xgboost.train({"device": device}, data)

        def fit_both(data, device="cuda"):
            net = torch.nn.Linear(2, 2).to(device)
            return net, xgboost.train({"device": device}, data)
    """
    content, apis = found(project, code)
    assert 'def fit(data, device="cuda")' in content and 'def fit_both(data, device="npu")' in content
    assert apis == ['"cuda"', "device"]


def test_a_subclass_is_given_what_its_base_is_given(project):
    code = """
        import torch
        import xgboost

        class Model(xgboost.XGBClassifier):
            def run(self): ...

        class Other(xgboost.XGBClassifier):
            def __init__(self, device): ...

        model, other = Model(device="cuda"), Other(device="cuda")
    """
    content, apis = found(project, code)
    assert 'Model(device="cuda"), Other(device="npu")' in content
    assert apis == ['"cuda"']


def test_subclasses_are_followed_to_the_package(project):
    code = """
        import torch
        import xgboost

        class Model(xgboost.XGBClassifier): ...

        class Deep(Model): ...

        class Named(Model):
            def __init__(self, name, device="cuda"):
                super().__init__(name, device=device)

        class Both(Model):
            def __init__(self, name, device="cuda"):
                super().__init__(name, device=device)
                self.net = torch.nn.Linear(2, 2).to(device)

        model = Deep("x", device="cuda"), Named("x", device="cuda"), Both("x", device="cuda")
    """
    content, apis = found(project, code)
    assert 'Deep("x", device="cuda"), Named("x", device="cuda"), Both("x", device="npu")' in content
    named, _, both = content.partition("class Both")
    assert 'def __init__(self, name, device="cuda")' in named and 'def __init__(self, name, device="npu")' in both
    assert apis == ['"cuda"', "device", '"cuda"', '"cuda"', '"cuda"']


BASE = """
    import xgboost
    import xgboost as xgb

    Model = xgboost.XGBClassifier

    class Deep(Model): ...

    def make(depth, device="cuda"):
        return Model(max_depth=depth, device=device)

    def train(net, device):
        net.to(device)
        return Model(device=device)
"""


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        ('from base import Model; Model(device="cuda")', True),
        ('from base import Deep; Deep(device="cuda:0")', True),
        ('import base; base.Model(device="cuda")', True),
        ('from base import xgb; xgb.XGBClassifier(device="cuda")', True),
        ('from middle import Model as M; M(device="cuda")', True),
        ('from base import make; make(3, "cuda")', True),
        ('from base import make; make(3, device="cuda" if fast else "cpu")', True),
        ('from base import train; train(net, "cuda")', False),
        ('from base import train; train(net, device="cuda:1")', False),
    ],
)
def test_what_another_file_has_of_the_package(project, code, stays):
    files = {
        "base.py": textwrap.dedent(BASE),
        "middle.py": "from base import *\n",
        "main.py": f"import torch\n{code}\n",
    }
    migrated = project(files)["main.py"]
    assert (migrated.content is None) is stays
    assert len([each for each in migrated.findings if "xgboost" in each.rule]) == 1


@pytest.mark.parametrize(
    ("between", "stays"),
    [
        (["lib/__init__.py"], True),
        (["lib.py"], True),
        (["lib/__init__.py", "lib/kit/__init__.py", "models.py"], True),
        (["lib/__init__.py", "models.py"], True),
        (["models.py", "lib/__init__.py"], True),
        (["lib.py", "models.py"], True),
    ],
)
def test_a_package_is_reached_through_files_that_hand_its_names_on(project, between, stays):
    modules = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in [*between, "base"]]
    files = {path: f"from {module} import Model\n" for path, module in zip(between, modules[1:], strict=True)}
    files |= {"base.py": "import xgboost\nModel = xgboost.XGBClassifier\n"}
    main = f"import torch\nfrom {modules[0]} import Model\nModel(device='cuda')\n"
    assert (project({**files, "main.py": main})["main.py"].content is None) is stays


def test_of_two_chains_to_a_file_the_shorter_one_counts(project):
    others = [f"other_{number}" for number in range(16)]
    files = {
        "base.py": "import xgboost\nModel = xgboost.XGBClassifier\n",
        "models.py": "from base import Model\n",
        "lib/__init__.py": "from models import Model\n",
        **{f"{other}.py": "import models\n" for other in others},
        "main.py": f"import torch, {', '.join(others)}\nfrom lib import Model\nModel(device='cuda')\n",
    }
    assert project(files)["main.py"].content is None


def test_attributes_of_a_class_are_followed_to_its_callers(project):
    code = """
        import torch
        import xgboost

        class Alone:
            def __init__(self, device="cuda"):
                self.device = device
                self.model = xgboost.XGBClassifier(device=self.device)

        class Both:
            def __init__(self, device=None):
                self.device = device
                self.model = xgboost.XGBClassifier(device=self.device)
                self.net = torch.nn.Linear(2, 2).to(self.device)

        models = Alone("cuda:0"), Both("cuda:1")
    """
    content, apis = found(project, code)
    assert 'Alone("cuda:0"), Both("npu:1")' in content and 'device="cuda"' in content
    assert apis == ['"cuda"', '"cuda:0"', '"cuda:1"']


def test_inherited_and_static_functions_are_followed_to_the_package(project):
    base = """
        import xgboost

        class Asr:
            def __init__(self, size, device="cuda"):
                self.model = xgboost.train(size, device=device)

            @staticmethod
            def make(device):
                return xgboost.train("s", device=device)

            @classmethod
            def build(cls, device):
                return xgboost.train("s", device=device)

            def load(self, device):
                return xgboost.train("s", device=device)

        class Sub(Asr): ...
    """
    use = """
        import torch
        from base import Asr, Sub

        class Mine(Asr):
            def __init__(self, device="cuda"):
                super().__init__("small", device)

        a = Sub("s", device="cuda"), Mine("cuda"), Asr.make("cuda"), Sub.build("cuda"), Sub("s").load("cuda")
    """
    migrated = project({"base.py": textwrap.dedent(base), "use.py": textwrap.dedent(use)})["use.py"]
    assert migrated.content is None
    assert [each.api for each in migrated.findings if "device stays" in each.message] == ['"cuda"'] * 6


def test_devices_that_go_on_in_double_stars_are_followed_to_the_package(project):
    code = """
        import torch
        import xgboost

        def make(size, **options):
            return xgboost.train(size, **options)

        class Asr:
            def __init__(self, size, device="cuda"):
                self.model = xgboost.train(size, device=device)

        class Mine(Asr):
            def __init__(self, size, **kwargs):
                super().__init__(size, **kwargs)

        class Deep(Mine):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)

        def both(**options):
            torch.zeros(1, **options)
            return xgboost.train("s", **options)

        make("s", device="cuda:0")
        Deep("s", device="cuda:1")
        both(device="cuda:2")
    """
    content, apis = found(project, code)
    assert 'make("s", device="cuda:0")' in content and 'Deep("s", device="cuda:1")' in content
    assert 'both(device="npu:2")' in content
    assert apis == ['"cuda"', '"cuda:0"', '"cuda:1"', '"cuda:2"']


XGBOOST = "import torch\nimport xgboost\n"
LOADER = """
class M0:
    def load(self, device):
        return xgboost.train("s", device=device)
    @classmethod
    def build(cls, device, name):
        return xgboost.train(3, device=device)
    @staticmethod
    def make(name, device):
        return xgboost.train(3, device=device)
"""


def subclasses(number):
    return "".join(f"class M{each}(M{each - 1}): ...\n" for each in range(1, number + 1))


REACHED = {
    "a call of what three others give": "xgboost.a().b().c().d(device='cuda')\n",
    "a subclass of many": f"class M0(xgboost.XGBModel): ...\n{subclasses(10)}M10(device='cuda')\n",
    "a method that is inherited from afar": f"{LOADER}{subclasses(10)}M10().load('cuda')\n",
    "a method that is called on the class": f"{LOADER}M0.load(M0(), 'cuda')\n",
    "a method of a base whose name a class has that inherits it": (
        f"{LOADER}class B(M0):\n    M0 = None\nB().load('cuda')\n"
    ),
    "a class method": f"{LOADER}M0.build('cuda', name)\n",
    "a static method of an object": f"{LOADER}M0().make(name, 'cuda')\n",
    "what is bound to what its method gives": "m = xgboost.train()\nm = m.fit()\nm = m.copy()\nm.run(device='cuda')\n",
    "a method of the second base": (
        f"{LOADER}class A: ...\nclass B(A, M0):\n    def load(self, device):\n        super().load(device)\n"
        "B().load('cuda')\n"
    ),
    "a method of a base whose name the class has too": (
        f"{LOADER}class B(M0):\n    M0 = None\n    def load(self, device):\n        super().load(device)\n"
        "B().load('cuda')\n"
    ),
}
BEYOND = {
    "a call of what four others give": "xgboost.a().b().c().d().e(device='cuda')\n",
    "what is bound to what another call gives, too": "m = xgboost.train()\nm = pick()\nm.run(device='cuda')\n",
    "a method that two assignments bind": f"{LOADER}    load = torch.load\nM0().load('cuda')\n",
    "super() outside of a class": "def load(self, device):\n    super().load(device=device)\nload(1, 'cuda')\n",
    "an attribute that is called": f"{LOADER}    other = torch.zeros\nM0().other(2, device='cuda')\n",
}


@pytest.mark.parametrize("code", REACHED.values(), ids=REACHED)
def test_the_package_is_reached_over_several_steps(project, code):
    assert found(project, XGBOOST + code) == (None, ["'cuda'"])


@pytest.mark.parametrize("code", BEYOND.values(), ids=BEYOND)
def test_the_package_is_not_looked_for_at_any_distance(project, code):
    assert "'npu')" in found(project, XGBOOST + code)[0]


def test_what_holds_it_is_no_other_code(project):
    assert found(project, XGBOOST + "xgboost.train(**dict(device='cuda'), a=dict(device='cuda'))")[0] is None
