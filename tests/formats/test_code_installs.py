"""Packages that Python code installs from strings, and those that a setup.py requires."""

import json
import textwrap

import pytest

IMPORTS = "import os, subprocess, sys\nimport pip\n"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('subprocess.run([sys.executable, "-m", "pip", "install", "flash-attn"])', ["flash-attn"]),
        ('subprocess.check_call(["sudo", "/usr/bin/pip3", "install", "-U", "apex"])', ["apex"]),
        ('os.system("pip install cupy-cuda12x")', ["cupy-cuda12x"]),
        ('os.system(f"{sys.executable} -m pip install -q flash_attn=={version} && echo")', ["flash-attn"]),
        ('os.system("pip install " + "xformers")', ["xformers"]),
        ('subprocess.run("pip install %s" % "triton", shell=True)', ["triton"]),
        ('subprocess.run("conda install -c nvidia apex".split())', ["apex"]),
        ('subprocess.run(["bash", "-c", "cd /tmp; pip install apex; ls"])', ["apex"]),
        ('pip.main(["install", "bitsandbytes"])', ["bitsandbytes"]),
        ('command = "pip install apex"\nos.popen(command)', ["apex"]),
        ('for name in ["numpy", "xformers"]:\n    os.system(f"pip install {name}")', ["xformers"]),
        (
            "def get(package):\n    subprocess.run([sys.executable, '-m', 'pip', 'install', package])\n"
            "get('apex')\nget(package='xformers')",
            ["apex", "xformers"],
        ),
        (
            "def get(package):\n    os.system('pip install ' + package)\n"
            "def prepare():\n    package = 'apex'\n    get(package)\n",
            ["apex"],
        ),
        ("command = 'pip install apex'\n" + "command = command + ' -q -U'\n" * 200 + "os.system(command)", ["apex"]),
        (
            "def get(*names):\n    subprocess.run(['pip', 'install', *names])\nget('apex', 'xformers')",
            ["apex", "xformers"],
        ),
        ("get_ipython().system('pip install xformers')", ["xformers"]),
        ("get_ipython().run_line_magic('pip', 'install xformers')", ["xformers"]),
        ("os.system('pip install torch==1.13.0')", ["torch==1.13.0"]),
        ("from setuptools import setup\nneeds = ['apex>=0.1']\nsetup(install_requires=needs)", ["apex"]),
        ("from setuptools import setup\nsetup(extras_require={'gpu': ['cupy-cuda12x']})", ["cupy-cuda12x"]),
        ("from setuptools import setup\nsetup(install_requires=['numpy', 'torch>=2.0'])", ["torch"]),
        ("from setuptools import setup\nsetup(install_requires=['torch', 'torch-npu==2.7.1'])", []),
        ("from setuptools import setup\nsetup(**{'install_requires': ['torch']})", ["torch"]),
        ("from setuptools import setup\nkw = dict(install_requires=['torch>=2'])\nsetup(name='x', **kw)", ["torch"]),
        (
            "from setuptools import setup\nkw = {'name': 'x'}\nkw['install_requires'] = ['torch']\nsetup(**kw)",
            ["torch"],
        ),
        (
            "from setuptools import setup\nkw = {}\nkw.update(install_requires=['torch', 'apex'])\nsetup(**kw)",
            ["torch", "apex"],
        ),
        (
            "from setuptools import setup\nkw = {'extras_require': {'gpu': ['cupy-cuda12x']}}\nsetup(**kw)",
            ["cupy-cuda12x"],
        ),
        (
            "from setuptools import setup\ndef kw():\n    return {'install_requires': ['torch']}\nsetup(**kw())",
            ["torch"],
        ),
        (
            "from setuptools import setup\nneeds = ['numpy']\nneeds.append('torch')\nsetup(install_requires=needs)",
            ["torch"],
        ),
        (
            "from setuptools import setup\nneeds = ['numpy']\nneeds += ['torch']\nsetup(install_requires=needs)",
            ["torch"],
        ),
        ("from setuptools import setup\nkw = {'keywords': ['torch']}\nsetup(**kw)", []),
        ("from setuptools import setup\nkw = dict(install_requires=['torch', 'torch-npu==2.7.1'])\nsetup(**kw)", []),
        # said to people, or of another program
        ('print("pip install flash-attn")', []),
        ('raise ImportError("pip install flash-attn")', []),
        ('subprocess.run(["python", "train.py", "install", "flash-attn"])', []),
        ('subprocess.run(["pip", "uninstall", "flash-attn"])', []),
        ('subprocess.run(["pip", "install", "numpy"])', []),
        ("os.system('pip install apex')  # gpu2npu: skip", []),
    ],
)
def test_what_code_installs_is_a_finding(migrate, code, names):
    result = migrate(IMPORTS + code + "\n", "tools/prepare.py", "2.7.1")
    assert [finding.api for finding in result.findings] == names
    assert {finding.severity.value for finding in result.findings} <= {"environment", "change"}


def test_it_stands_where_the_name_is_written(migrate):
    result = migrate(IMPORTS + "os.system('pip install -q apex')\n", "a.py")
    span = result.findings[0].span
    assert (span.start_line, span.start_column, span.end_column) == (3, 26, 30)


def test_a_pin_that_fits_no_torch_npu_shows_the_right_one(migrate):
    found = migrate(IMPORTS + "os.system('pip install torchvision==0.16.0')\n", "a.py", "2.7.1").findings
    assert [(each.severity.value, "write torchvision==0.22.1" in each.message) for each in found] == [("change", True)]


def test_code_in_a_cell_of_a_notebook_installs_too(migrate):
    code = textwrap.dedent(
        """\
        !ls
        import os
        os.system("pip install apex")"""
    )
    cell = {"cell_type": "code", "source": code, "metadata": {}, "outputs": [], "execution_count": None}
    text = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})
    found = migrate(text, "a.ipynb").findings
    assert [(each.api, each.span.cell, each.span.start_line) for each in found] == [("apex", 1, 3)]


def test_code_that_cannot_be_parsed_installs_nothing(migrate):
    assert migrate("import pip\nos.system('pip install apex'\n", "a.py").findings == ()
