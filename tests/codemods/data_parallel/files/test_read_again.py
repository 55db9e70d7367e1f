"""Files that rank 0 wrote are read by all ranks: they wait for them, and load them to the CPU."""

from textwrap import dedent

import pytest

FORMS = {
    "a checkpoint whose path its helper returns": (
        """
        def keep(state, folder):
            path = os.path.join(folder, 'last.pth')
            torch.save(state, path)
            return path

        def main():
            name = keep({}, '.')
            print(torch.load(name, map_location='cpu'))

        main()
        """,
        """
        def keep(state, folder):
            path = os.path.join(folder, 'last.pth')
            if dist.get_rank() == 0:
                torch.save(state, path)
            dist.barrier()
            return path

        def main():
            name = keep({}, '.')
            print(torch.load(name, map_location='cpu'))

        main()
        """,
    ),
    "an image that is opened again": (
        """
        from PIL import Image
        Image.fromarray(x).save('grid.png')
        size = Image.open('grid.png').size
        """,
        """
        from PIL import Image
        if dist.get_rank() == 0:
            Image.fromarray(x).save('grid.png')
        dist.barrier()
        size = Image.open('grid.png').size
        """,
    ),
    "a helper whose callers read what it wrote": (
        """
        import numpy as np

        def cache(rows, path):
            if not os.path.exists(path):
                with open(path, 'wb') as f:
                    f.write(rows)
            return path

        def main():
            where = cache(b'x', 'a.bin')
            data = np.fromfile(where)

        main()
        """,
        """
        import numpy as np

        def cache(rows, path):
            if dist.get_rank() == 0:
                if not os.path.exists(path):
                    with open(path, 'wb') as f:
                        f.write(rows)
            dist.barrier()
            return path

        def main():
            where = cache(b'x', 'a.bin')
            data = np.fromfile(where)

        main()
        """,
    ),
    "a name of its own that is put in place in one step": (
        """
        import tempfile

        def fetch(rows, path):
            handle, name = tempfile.mkstemp()
            with open(name, 'wb') as f:
                f.write(rows)
            os.replace(name, path)
            return path

        json.load(open(fetch(b'x', 'a.json')))
        """,
        """
        import tempfile

        def fetch(rows, path):
            handle, name = tempfile.mkstemp()
            with open(name, 'wb') as f:
                f.write(rows)
            os.replace(name, path)
            return path

        json.load(open(fetch(b'x', 'a.json')))
        """,
    ),
    "a path that is only printed": (
        """
        def save(epoch):
            path = f'{epoch}.pt'
            torch.save(model.state_dict(), path)
            return path

        for epoch in range(3):
            path = save(epoch)
            print(path)
        """,
        """
        def save(epoch):
            path = f'{epoch}.pt'
            if dist.get_rank() == 0:
                torch.save(model.state_dict(), path)
            return path

        for epoch in range(3):
            path = save(epoch)
            print(path)
        """,
    ),
    "a file that is read below": (
        """
        if args.build:
            with open('vocab.json', 'w') as f:
                json.dump(words, f)
        vocab = json.load(open('vocab.json'))
        """,
        """
        if dist.get_rank() == 0:
            if args.build:
                with open('vocab.json', 'w') as f:
                    json.dump(words, f)
        dist.barrier()
        vocab = json.load(open('vocab.json'))
        """,
    ),
    "a file read back at the end": (
        """
        def main():
            for epoch in range(3):
                fit(model)
                torch.save(model.state_dict(), 'best.pt')
            model.load_state_dict(torch.load('best.pt', map_location='cpu'))
        """,
        """
        def main():
            for epoch in range(3):
                fit(model)
                if dist.get_rank() == 0:
                    torch.save(model.state_dict(), 'best.pt')
            dist.barrier()
            model.load_state_dict(torch.load('best.pt', map_location='cpu'))
        """,
    ),
    "a file of which a class and a function make the name": (
        """
        class Best:
            def keep(self, model, path):
                torch.save(model.state_dict(), path+'/'+'best.pth')

        def main(path):
            best = Best()
            for epoch in range(3):
                fit(model)
                best.keep(model, path)
            best_path = path + '/' + 'best.pth'
            model.load_state_dict(torch.load(best_path, map_location='cpu'))
        """,
        """
        class Best:
            def keep(self, model, path):
                if dist.get_rank() == 0:
                    torch.save(model.state_dict(), path+'/'+'best.pth')

        def main(path):
            best = Best()
            for epoch in range(3):
                fit(model)
                best.keep(model, path)
            best_path = path + '/' + 'best.pth'
            dist.barrier()
            model.load_state_dict(torch.load(best_path, map_location='cpu'))
        """,
    ),
    "a file that a function reads back": (
        """
        def save(model, epoch):
            path = 'net_%d.pth' % epoch
            torch.save(model.state_dict(), path)

        def load(model, epoch):
            model.load_state_dict(torch.load('net_%d.pth' % epoch, map_location='cpu'))

        def main():
            for epoch in range(3):
                fit(model)
                save(model, epoch)
                load(model, epoch)
        """,
        """
        def save(model, epoch):
            path = 'net_%d.pth' % epoch
            if dist.get_rank() == 0:
                torch.save(model.state_dict(), path)

        def load(model, epoch):
            dist.barrier()
            model.load_state_dict(torch.load('net_%d.pth' % epoch, map_location='cpu'))

        def main():
            for epoch in range(3):
                fit(model)
                save(model, epoch)
                load(model, epoch)
        """,
    ),
    "a file that another function read before": (
        """
        def save(model):
            torch.save(model.state_dict(), folder + '/net.pth')

        def load(model):
            model.load_state_dict(torch.load(folder + '/net.pth', map_location='cpu'))

        def main():
            load(model)
            for epoch in range(3):
                fit(model)
            save(model)
        """,
        """
        def save(model):
            if dist.get_rank() == 0:
                torch.save(model.state_dict(), folder + '/net.pth')

        def load(model):
            model.load_state_dict(torch.load(folder + '/net.pth', map_location='cpu'))

        def main():
            load(model)
            for epoch in range(3):
                fit(model)
            save(model)
        """,
    ),
    "parts whose names differ by a field": (
        """
        def main():
            for part in ('train', 'val'):
                torch.save(x, f'{folder}/x_{part}.pt')
                torch.save(y, f'{folder}/y_{part}.pt')
            x = torch.load(f'{folder}/x_train.pt')
            y = torch.load(f'{folder}/y_train.pt')
            z = torch.load(f'{folder}/z_train.pt')
        """,
        """
        def main():
            if dist.get_rank() == 0:
                for part in ('train', 'val'):
                    torch.save(x, f'{folder}/x_{part}.pt')
                    torch.save(y, f'{folder}/y_{part}.pt')
            dist.barrier()
            x = torch.load(f'{folder}/x_train.pt')
            y = torch.load(f'{folder}/y_train.pt')
            z = torch.load(f'{folder}/z_train.pt')
        """,
    ),
    "a checkpoint to go on from": (
        """
        def main():
            if args.resume:
                model.load_state_dict(torch.load(args.resume, map_location='cpu'))
            for epoch in range(3):
                fit(epoch)
                torch.save(model.state_dict(), args.resume)
        """,
        """
        def main():
            if args.resume:
                model.load_state_dict(torch.load(args.resume, map_location='cpu'))
            for epoch in range(3):
                fit(epoch)
                if dist.get_rank() == 0:
                    torch.save(model.state_dict(), args.resume)
        """,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_rank_zero_writes_what_all_ranks_read(form, gate_one):
    before, after = FORMS[form]
    assert gate_one(before) == (dedent(after), [])


@pytest.mark.parametrize(
    ("body", "call"),
    [
        (
            "if os.path.exists(path):\n        return path\n    with open(path, 'w') as f:\n        f.write('x')",
            "p = get(a)",
        ),
        ("with open(path, 'w') as f:\n        f.write('x')", "if best > 3:\n    p = get(a)"),
        ("with open(path, 'w') as f:\n        f.write('x')", "try:\n    1\nexcept OSError:\n    p = get(a)"),
    ],
)
def test_what_all_ranks_go_on_with_and_not_all_come_by_is_reported(body, call, gate_one):
    source = f"\ndef get(path):\n    {body}\n    return path\n\np = a\n{call}\njson.load(open(p))\n"
    after, messages = gate_one(source)
    assert after == source
    (message,) = messages
    assert "goes on with it" in message


@pytest.mark.parametrize(
    ("before", "as_written"),
    [
        ("net.load_state_dict(torch.load(p))\n", "net.load_state_dict(torch.load(p, map_location='cpu'))\n"),
        (
            "c = torch.load(p, weights_only=True)\nnet.load_state_dict(c['net'])\nopt.load_state_dict(c['opt'])\n",
            "c = torch.load(p, weights_only=True, map_location='cpu')\n"
            "net.load_state_dict(c['net'])\nopt.load_state_dict(c['opt'])\n",
        ),
        (
            "c = torch.load(p)['net']\ns = {k[7:]: v for k, v in c.items()}\nnet.load_state_dict(s, strict=False)\n",
            "c = torch.load(p, map_location='cpu')['net']\ns = {k[7:]: v for k, v in c.items()}\n"
            "net.load_state_dict(s, strict=False)\n",
        ),
        (
            "def read(p):\n    return torch.load(p)\nnet.load_state_dict(read('a'))\n",
            "def read(p):\n    return torch.load(p, map_location='cpu')\nnet.load_state_dict(read('a'))\n",
        ),
    ],
)
def test_every_process_loads_a_checkpoint_to_the_cpu(before, as_written, gate_one):
    assert gate_one(before) == (as_written, [])


@pytest.mark.parametrize(
    "source",
    [
        "net.load_state_dict(torch.load(p, map_location=device))\n",
        "net.load_state_dict(torch.load(p, 'cpu'))\n",
        "net.load_state_dict(torch.load(*arguments))\n",
        "rows = torch.load('rows.pt')\n",
        "net.load_state_dict(torch.load(p))  # gpu2npu: skip\n",
        "net.load_state_dict(other.state_dict())\n",
    ],
)
def test_what_is_loaded_elsewhere_stays(source, gate_one):
    assert gate_one(source) == (source, [])
