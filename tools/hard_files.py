"""Python files that are hard to edit: hand-written fragments of odd syntax around uses of CUDA, in odd encodings.

Each file holds two fragments, each with a use of its own, in one envelope: line ends, a mark, a cookie, form feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

NUMBER = 500

# Expressions, each a place that is migrated.
USES = [
    "torch.cuda.is_available()",
    "torch.cuda . device_count (  )",
    "torch . cuda\t.current_device()",
    "x.cuda()",
    "x .cuda( non_blocking = True )",
    "x.to('cuda')",
    'x.to(device="cuda:0")',
    "x.to(r'cuda')",
    "x.to(f'cuda:{i}')",
    "torch.device('''cuda''', 0)",
    "torch.ones(1, device='cuda' if torch.cuda.is_available() else 'cpu')",
    "(torch.cuda).get_device_name(0)",
    "(x.cuda\n ())",
    "(torch\n .cuda  # why\n .memory_allocated())",
    "x.is_cuda",
    "getattr(torch, 'cuda').synchronize()",
    "os.environ['CUDA_VISIBLE_DEVICES']",
    "(lambda q=torch.cuda.device_count(): q)()",
    "torch.cuda.FloatTensor([1.])",
    "[*map(torch.cuda.get_device_name, range(2))]",
    "dist.init_process_group(backend='nccl', **{})",
    "torch.load(p, map_location={'cuda:1': 'cuda:0'})",
    "torch.cuda.amp.autocast(enabled=not False)",
    "x.type('torch.cuda.HalfTensor')",
    "x.device.type == 'cuda'",
]

# Code with {u}, where an expression goes; a line ends with \n, an indentation is four blanks.
FRAGMENTS = [
    "if {u}: pass; y = {u}\n",
    "y = {u}; z = 1; del z\n",
    "while {u}: break\nelse: y = 2\n",
    "for i, *rest in [({u}, 2, 3)]: y = rest; continue\n",
    "class K: a = {u}; b = a\n",
    "class K(object, metaclass=type): v: int = {u}; __slots__ = ()\n",
    "def f(a, /, b=0, *c, d={u}, **e): return {u}\n",
    "async def f():\n    async with a as b, c as d:\n        async for i in {u}: await {u}\n"
    "    return [j async for j in {u}]\n",
    "@(lambda g: g)\n@decorate({u})\nclass D:\n    @property\n    def p(self): return {u}\n",
    "y = lambda a=({u}), *b, c=0, **d: (a, {u})\n",
    "y = [({u}) for a in b if {u} for c in d]\n",
    "y = {{**{{'k': {u}}}, 'l': {u}}}\n",
    "y = {{k: ({u}) for k in z if (m := {u})}}\n",
    "if (n := {u}) and (m := not {u}): pass\n",
    "print(*[{u}], **dict(sep={u} and ''))\n",
    "y = x[{u}:, ..., None:({u})]\n",
    "y = a if {u} else b if {u} else c\n",
    "y = not({u})or(0)and({u})\n",
    "assert {u}, ({u})\n",
    "raise ValueError({u}) from None\n",
    "try: y = {u}\nexcept (A, B) as e: y = {u}\nexcept: pass\nelse: y = 1\nfinally: y = {u}\n",
    "with open(str({u})) as a, \\\n        open('b') as b: y = {u}\n",
    "y = 1 + \\\n    ({u}) + \\\n    2\n",
    "y = (  # cuda\n    {u}  # torch.cuda\n    ,\n)\n",
    "f(a, b\n  , c = {u}\n  , )\n",
    "if a:\n\ty = {u}\n\tif b:\n\t\tz = {u}\n",
    "if a:\n  y = {u}\nelif b:\n      y = {u}\nelse:\n y = {u}\n",
    "match {u}:\n    case 'cuda' | 'cpu': y = {u}\n    case {{'d': d, **rest}} if {u}: pass\n"
    "    case [1, *_, K(a=2)]: y = 1\n    case _: pass\n",
    "match = {u}; case = match; type = case; _ = type\n",
    "global_ = 1\ndef f():\n    global torch_\n    import torch as torch_\n    def g():\n"
    "        nonlocal_ = {u}\n        return nonlocal_\n    return g\n",
    "def f():\n    y = {u}\n    def g():\n        nonlocal y; y = {u}\n    return g\n",
    "try:\n    import torch.cuda as tc\nexcept ImportError:\n    tc = None\nelse: y = {u}\n",
    "if 0: import torch.cuda\nelif 1:\n    from torch import cuda as c, nn as n\n    y = c.device_count(), {u}\n",
    "from torch.cuda import (  # all\n    is_available,\n    device_count as count,  # two\n)\n"
    "y = is_available(), count(), {u}\n",
    "import torch.cuda, os; y = {u}\n",
    "y = f'{{ {u} !r:>{{10}}}} cuda {{{{torch.cuda}}}}'\n",
    "y = f\"{{x!r}}\" 'cuda' f\"{{ ({u}) }}\"\n",
    "y = rf'\\cuda{{1}}' + b'cuda'.decode() + u'cuda'\ny = {u}\n",
    "y = '''\ntorch.cuda.is_available()\n''' \"\"\"x.cuda()\"\"\"; z = {u}\n",
    "y = 'a\\\n cuda'; z = {u}\n",
    "'''torch.cuda'''; y = {u}\n",
    "def f():\n    'x.cuda()'; return {u}\n",
    "def f(): ...; ...\ny = {u};\n",
    "y: 'torch.cuda.Stream' = None; z: list[{u}] = []\n",
    "def f(a: 'torch.cuda.Event' = None) -> 'torch.cuda.Stream': return {u}\n",
    "y = 0xFFFF_FFFF_FFFF, 1_0.0_1e-1_0j, 0o17, 0b1_1, {u}\n",
    "y = (yield_ := {u}),\n",
    "def f():\n    y = yield {u}\n    yield from [{u}]\n    return (yield)\n",
    "x = x.cuda().cuda().to('cuda').cuda(); y = {u}\n",
    "x[0].y().cuda()[{u}].z = {u}\n",
    "a = b = c[{u}] = d.e = {u}\n",
    "(a, [b, *c]), d = {u}, {u}\n",
    "y += {u}; y @= x; y //= 1; y >>= 2\n",
    "del (a), [b, c[{u}]]\n",
    "class cuda:\n    cuda = {u}\n    def cuda_(self, cuda=cuda): return self.cuda, cuda\n",
    "cuda = 'cuda'; torch_cuda = {u}; d = dict(cuda=cuda)\n",
    "nccl = {{'nccl': 'nccl', \"gloo\": {u}}}\n",
    "if True:\n    pass\n    # cuda\n  # nccl\n# torch.cuda\n    y = {u}\n",
    "y = {u} # no blank\n#! cuda\n#cuda\n\n\n\n",
    "try:\n    y = {u}\nexcept* ValueError as g:\n    y = {u}\n",
    "type Alias[T: ({u}, int)] = list[T]\n",
    "def f[T](a: T) -> T: return {u}\n",
    "y = f'{{f'{{ {u} }}'}}'\n",
    "print >>f, {u}\n",
    "exec '{u}'\n",
    "y = `{u}`\n",
    "if x <> 1: y = {u}\n",
    "def f((a, b)): return {u}\n",
    "  y = {u}\n",
    "if a:\n        y = 1\n\tz = {u}\n",
]  # fmt: skip

HEAD = "import torch, os\nimport torch.distributed as dist\n"
COOKIE = "# -*- coding: {} -*-\n"
# What is done to the text of a file, and the encoding of its bytes.
ENVELOPES: dict[str, Callable[[str], bytes]] = {
    "plain": lambda text: (HEAD + text).encode(),
    "crlf": lambda text: (HEAD + text).replace("\n", "\r\n").encode(),
    "cr": lambda text: (HEAD + text).replace("\n", "\r").encode(),
    "mixed": lambda text: (HEAD + text).replace("\n", "\r\n", 2).encode(),
    "mark": lambda text: b"\xef\xbb\xbf" + (HEAD + text).encode(),
    "latin": lambda text: (COOKIE.format("latin-1") + "é = 'ÿ'  # ü\n" + HEAD + text).encode("latin-1"),
    "gbk": lambda text: (COOKIE.format("gbk") + "显卡 = '显存'  # cuda 设备\n" + HEAD + text).encode("gbk"),
    "utf8": lambda text: (HEAD + "名 = '😀' 'cuda 设备'; 变量 = 1\n" + text).encode(),
    "form_feed": lambda text: (HEAD + "\f\n" + text + "\f\n").encode(),
    "no_newline": lambda text: (HEAD + text).rstrip("\n").encode(),
    "future": lambda text: ("'''doc'''\nfrom __future__ import annotations\n" + HEAD + text).encode(),
    "no_import": lambda text: text.encode(),
    "star": lambda text: ("from torch import *\nimport torch as x, torch\n" + text).encode(),
}


def hard_files() -> Iterator[tuple[str, bytes]]:
    """Names and contents of NUMBER distinct files; all fragments, uses and envelopes are among any 80 in turn."""
    envelopes = list(ENVELOPES)
    for number in range(NUMBER):
        first = FRAGMENTS[number % len(FRAGMENTS)]
        second = FRAGMENTS[(number * 7 + number // len(FRAGMENTS) * 11 + 3) % len(FRAGMENTS)]
        if second in FRAGMENTS[FRAGMENTS.index("try:\n    y = {u}\nexcept* ValueError as g:\n    y = {u}\n") + 1 :]:
            second = FRAGMENTS[number % 40]  # what no Python 3.11 takes is in few files
        use, other = USES[(number * 3) % len(USES)], USES[(number * 5 + number // len(USES) + 1) % len(USES)]
        envelope = envelopes[(number + number // len(FRAGMENTS)) % len(envelopes)]
        text = first.replace("{u}", use) + second.replace("{u}", other)
        yield f"{number:03}_{envelope}.py", ENVELOPES[envelope](text.replace("{{", "{").replace("}}", "}"))
