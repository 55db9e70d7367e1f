"""Rank 0 writes the files, and nothing else about a program changes."""

from textwrap import dedent

import pytest

HEAD = "import os\nimport torch\nimport torch.distributed as dist\n\n"

FORMS = {
    "images": (
        """
        from PIL import Image
        import numpy as np
        import matplotlib.pyplot as plt
        first = Image.open('wax.png')
        other = Image.open('a')
        for epoch in range(3):
            image = Image.fromarray(np.zeros((3, 3))).convert('L')
            image.save('a.png')
            Image.new('L', (3, 3)).resize((2, 2)).save('b.png')
            fit(epoch)
            np.save('c.npy', np.zeros(3))
            plt.savefig('d.png')
            model.save('e')
        """,
        """
        from PIL import Image
        import numpy as np
        import matplotlib.pyplot as plt
        first = Image.open('wax.png')
        other = Image.open('a')
        for epoch in range(3):
            image = Image.fromarray(np.zeros((3, 3))).convert('L')
            if dist.get_rank() == 0:
                image.save('a.png')
                Image.new('L', (3, 3)).resize((2, 2)).save('b.png')
            fit(epoch)
            if dist.get_rank() == 0:
                np.save('c.npy', np.zeros(3))
                plt.savefig('d.png')
            model.save('e')
        """,
    ),
    "a checkpoint": (
        """
        for epoch in range(3):
            fit(epoch)
            torch.save({
                'model': model.state_dict(),  # weights

                'epoch': epoch,
            }, path)
            print('saved')
        """,
        """
        for epoch in range(3):
            fit(epoch)
            if dist.get_rank() == 0:
                torch.save({
                    'model': model.state_dict(),  # weights

                    'epoch': epoch,
                }, path)
            print('saved')
        """,
    ),
    "a function that only saves": (
        """
        def save_checkpoint(state, is_best, filename='checkpoint.pth.tar'):
            \"\"\"Saves.\"\"\"
            torch.save(state, filename)
            # the best so far
            if is_best:
                shutil.copyfile(filename, 'model_best.pth.tar')

        save_checkpoint(model.state_dict(), best)
        """,
        """
        def save_checkpoint(state, is_best, filename='checkpoint.pth.tar'):
            \"\"\"Saves.\"\"\"
            if dist.get_rank() == 0:
                torch.save(state, filename)
                # the best so far
                if is_best:
                    shutil.copyfile(filename, 'model_best.pth.tar')

        save_checkpoint(model.state_dict(), best)
        """,
    ),
    "a folder and what goes into it": (
        """
        if acc > best_acc:
            print('Saving..')
            state = {'net': net.state_dict()}
            if not os.path.isdir('checkpoint'):
                os.mkdir('checkpoint')
            print('writing')
            torch.save(state, './checkpoint/ckpt.pth')
            best_acc = acc
        """,
        """
        if acc > best_acc:
            print('Saving..')
            state = {'net': net.state_dict()}
            if dist.get_rank() == 0:
                if not os.path.isdir('checkpoint'):
                    os.mkdir('checkpoint')
                print('writing')
                torch.save(state, './checkpoint/ckpt.pth')
            best_acc = acc
        """,
    ),
    "strings over several lines": (
        '''
        def finish():
            with open('notes.md', 'w') as f:
                f.write("""# Results
        of the run
                """ + f"""
        {name}
                """)
        ''',
        '''
        def finish():
            if dist.get_rank() == 0:
                with open('notes.md', 'w') as f:
                    f.write("""# Results
        of the run
                """ + f"""
        {name}
                """)
        ''',
    ),
    "a table": (
        """
        with open('log.csv', 'a') as f:
            rows = csv.writer(f)
            rows.writerow([epoch, loss.item()])
        json.dump(vars(args), open('args.json', 'w'))
        """,
        """
        if dist.get_rank() == 0:
            with open('log.csv', 'a') as f:
                rows = csv.writer(f)
                rows.writerow([epoch, loss.item()])
            json.dump(vars(args), open('args.json', 'w'))
        """,
    ),
    "in one line": (
        """
        if epoch % 10 == 0: torch.save(model.state_dict(), path)
        """,
        """
        if dist.get_rank() == 0:
            if epoch % 10 == 0: torch.save(model.state_dict(), path)
        """,
    ),
    "several models": (
        """
        for name, net in nets.items():
            torch.save(net.state_dict(), f'{name}.pth')
        """,
        """
        if dist.get_rank() == 0:
            for name, net in nets.items():
                torch.save(net.state_dict(), f'{name}.pth')
        """,
    ),
    "a condition that takes all ranks": (
        """
        if validate(model) > best:
            torch.save(model.state_dict(), path)
        """,
        """
        if validate(model) > best:
            if dist.get_rank() == 0:
                torch.save(model.state_dict(), path)
        """,
    ),
    "TensorBoard": (
        """
        from torch.utils.tensorboard import SummaryWriter
        writer = SummaryWriter('runs')
        for epoch in range(3):
            writer.add_scalar('loss', loss.item(), epoch)
            writer.add_scalar('acc', acc, epoch)
            scheduler.step()
        """,
        """
        from torch.utils.tensorboard import SummaryWriter
        writer = SummaryWriter('runs')
        for epoch in range(3):
            if dist.get_rank() == 0:
                writer.add_scalar('loss', loss.item(), epoch)
                writer.add_scalar('acc', acc, epoch)
            scheduler.step()
        """,
    ),
    "wandb": (
        """
        import wandb
        wandb.init(project='p', config=args)
        wandb.log({'loss': loss})
        """,
        """
        import wandb
        wandb.init(project='p', config=args, mode=None if dist.get_rank() == 0 else 'disabled')
        wandb.log({'loss': loss})
        """,
    ),
    "folders": (
        """
        from pathlib import Path
        if not os.path.exists(args.out):
            os.makedirs(args.out)
        os.mkdir('logs')
        Path(args.out).mkdir(parents=True)
        os.makedirs('a', exist_ok=True)
        """,
        """
        from pathlib import Path
        if not os.path.exists(args.out):
            os.makedirs(args.out, exist_ok=True)
        os.makedirs('logs', exist_ok=True)
        Path(args.out).mkdir(parents=True, exist_ok=True)
        os.makedirs('a', exist_ok=True)
        """,
    ),
    "tabs": (
        "def f():\n\ttorch.save(a,\n\t\tb)\n",
        "def f():\n\tif dist.get_rank() == 0:\n\t\ttorch.save(a,\n\t\t\tb)\n",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_rank_zero_writes(form, gate_one):
    before, after = FORMS[form]
    assert gate_one(before) == (dedent(after), [])


def test_line_ends_of_windows_stay(gate):
    text = "import torch\r\nimport torch.distributed as dist\r\ndef f():\r\n    torch.save(\r\n        a, b)\r\n"
    after, _ = gate({"train.py": text})
    assert after["train.py"] == text.replace(
        "    torch.save(\r\n        a", "    if dist.get_rank() == 0:\r\n        torch.save(\r\n            a"
    )


UNCHANGED = {
    "a program that asks for its rank": """
        if args.rank == 0:
            torch.save(model.state_dict(), path)
        def save(path):
            if not is_main_process():
                return
            torch.save(model.state_dict(), path)
        """,
    "reading": """
        with open('config.json') as f:
            config = json.load(f)
        state = torch.load(path)
        print(state)
        """,
    "a buffer in memory": """
        import io
        def image(plt):
            held = io.BytesIO()
            plt.savefig(held, format='png')
            torch.save(state, io.BytesIO())
            return held
        """,
    "a comment": """
        torch.save(a, b)  # gpu2npu: skip
        """,
}


@pytest.mark.parametrize("form", UNCHANGED)
def test_other_code_stays(form, gate_one):
    assert gate_one(UNCHANGED[form]) == (dedent(UNCHANGED[form]), [])


LEFT = {
    "a model run for a picture": (
        "torch.save(model(fixed), 'sample.pt')\n",
        "Compute what it gets in a line before, on all ranks",
    ),
    "a model of an object": (
        "class T:\n    def __init__(self):\n        self.net = Net()\n"
        "    def snap(self):\n        torch.save(self.net(z), 'z.pt')\n",
        "Compute what it gets in a line before, on all ranks",
    ),
    "a value that is used": ("path = shutil.copy(a, b)\n", "put the call into a line of its own"),
    "a log file": ("logging.basicConfig(filename='train.log')\n", "put dist.get_rank() into its name"),
    "an open file": ("log = open('log.txt', 'w')\nlog.write('x')\n", "put dist.get_rank() into its name"),
    "training while a file is open": (
        "with open('log.txt', 'w') as f:\n    for x in loader:\n"
        "        f.write(str(model(x)))\n        torch.save(x, y)\n",
        "put dist.get_rank() into its name",
    ),
    "an attribute that is set while a file is open": (
        "with open('log.txt', 'w') as f:\n    f.write('x')\n    args.done = True\n",
        "put dist.get_rank() into its name",
    ),
    "a file read back under a condition": (
        "torch.save(x, 'cache.pt')\nif args.cached:\n    x = torch.load('cache.pt')\n",
        "let all ranks call dist.barrier()",
    ),
}


@pytest.mark.parametrize("form", LEFT)
def test_what_needs_a_person_is_reported(form, gate_one):
    source, words = LEFT[form]
    _, (message,) = gate_one(source)
    assert words in message


def test_what_is_reported_is_left(gate_one):
    for source, _ in (LEFT[form] for form in LEFT if "read back" not in form):
        assert gate_one(source)[0] == source


def test_modules_are_gated_in_their_functions_only(gate):
    files = {
        "train.py": "from tools import save\nsave(x)\n",
        "tools.py": HEAD
        + "torch.save(1, 'a')\ndef save(x):\n    torch.save(x, 'x')\nif __name__ == '__main__':\n    save(1)\n",
        "convert.py": HEAD + "torch.save(1, 'a')\n",
    }
    after, _ = gate(files)
    assert after == {
        **files,
        "tools.py": files["tools.py"].replace(
            "    torch.save(x, 'x')", "    if dist.get_rank() == 0:\n        torch.save(x, 'x')"
        ),
    }


def test_a_module_that_is_found_through_sys_path_saves_once(gate):
    train = f"""{HEAD}import sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'common'))
from saving import save

for epoch in range(3):
    save(model.state_dict(), path)
"""
    saving = "import torch\n\ndef save(state, path):\n    torch.save(state, path)\n"
    files = {"tools/train.py": train, "common/saving.py": saving, "other/saving.py": saving}
    after, messages = gate(files, entries=("tools/train.py",))
    assert "    if dist.get_rank() == 0:\n        torch.save(state, path)\n" in after["common/saving.py"]
    assert after["other/saving.py"] == saving
    assert messages == []
