"""The parts that all pages share: their templates, their language, and data for their scripts; and the page of a
verification: losses, a heat map of steps by places, numbers and code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from gpu2npu.language import exactly, language, message, sentence, shown
from gpu2npu.report.text import of_place

# A message in a template or script: _("..."), and sentence("...") with its values.
MESSAGE = re.compile(r'\b(?:_|sentence)\("([^"\\]+)"')


def render(template: str, **values: Any) -> str:
    """The page that a template of `templates/` makes of the values, in the language in use."""
    environment = Environment(loader=FunctionLoader(_template), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"_": _shown, "sentence": sentence, "of_place": of_place, "hours": _hours}
    environment.globals["words_of"] = _words_of
    return environment.get_template(template).render(lang="zh-CN" if language() == "zh" else "en", **values)


def _template(name: str) -> str:
    return (files("gpu2npu.report") / "templates" / name).read_text(encoding="utf-8")


def _shown(text: object) -> str:
    return shown(str(text))


def _hours(low: float, high: float) -> str:
    """A range of person-hours."""
    return f"{low:.1f} to {high:.1f}" if high < 10 else f"{low:.0f} to {high:.0f}"


def _words_of(script: str, *more: str) -> Markup:
    """The messages of a script, and more that it shows, in the language in use, for its function `_`."""
    return embedded_json({text: exactly(text) or text for text in (*MESSAGE.findall(_template(script)), *more)})


def embedded_json(value: Any) -> Markup:
    """JSON that can be in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


# Who computed an operator of the NPU, by the record's word.
COMPUTED = {
    "numpy": message("NumPy kernel"),
    "borrowed": message("PyTorch's CPU code"),
    "fallback": "not on the NPU: the CPU computes it",
}


def verify_page(document: Mapping[str, Any], name: str) -> str:
    """The page of a document as `gpu2npu verify --format json` prints it."""
    return render(
        "verify.html",
        title=shown(f"{name} on an NPU"),
        name=name,
        result=document,
        computed=COMPUTED,
        data=embedded_json(document),
    )
