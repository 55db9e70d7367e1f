"""All that an expression may name where it is."""

from gpu2npu.python.meaning.live_names import live_names


def called(names):
    """The names that the call in the last statement of a file may mean, sorted."""
    return sorted(str(each.qualified) for each in live_names(names, names.file.tree.body[-1].value.func))


def test_each_binding_that_reaches_the_use_counts(parse):
    assert called(parse("import torch\nf = torch.abs\nif x:\n    f = torch.add\nf()\n")) == ["torch.abs", "torch.add"]
    assert called(parse("import torch\nf = torch.abs\nf = own\nf()\n")) == ["None"]


def test_circles_end(parse):
    text = "import torch\na = torch.abs\nwhile x:\n    b = a\n    a = b\na()\n"
    assert set(called(parse(text))) == {"torch.abs"}


def test_a_value_that_many_ways_lead_to_is_found_once(parse):
    steps = "".join(f"if x:\n    a{i} = a{i - 1}\nelse:\n    a{i} = a{i - 1}\n" for i in range(1, 40))
    assert set(called(parse(f"import torch\na0 = torch.abs\n{steps}a39()\n"))) == {"torch.abs"}


def test_members_of_one_alias_are_all_found(parse):
    text = "import torch\nm = torch\nif x:\n    f = m.abs\nelse:\n    f = m.add\nf()\n"
    assert called(parse(text)) == ["torch.abs", "torch.add"]
