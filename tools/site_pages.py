"""`make site`: the pages of the documentation, copied for MkDocs.

    python -m tools.site_pages .site/pages

Pages keep the folders that they have in the repository, so that links between them hold. A notebook becomes a page, and
code that Python's HTML parser takes for a declaration (`(?<![a-z])`) is spelled with entities.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DECLARATION = re.compile(r"`([^`\n]*<![^`\n]*)`")
MARKUP = re.compile(r"[\\`*_\[\]|~]")
_CHINESE = ".zh-CN"
LINK_TO_NOTEBOOK = re.compile(r"\.ipynb\)")


def main() -> None:
    """Write the pages into the folder that is named; a file of another kind that pages link to is copied."""
    target = Path(sys.argv[1])
    for source in sorted([*ROOT.glob("*.md"), ROOT / "LICENSE", *(ROOT / "docs").rglob("*.*")]):
        page = target / source.relative_to(ROOT)
        page.parent.mkdir(parents=True, exist_ok=True)
        match source.suffix:
            case ".md":
                page.write_text(_switch(source) + page_text(source.read_text(encoding="utf-8")), encoding="utf-8")
            case ".ipynb":
                notebook = json.loads(source.read_text(encoding="utf-8"))
                page.with_suffix(".md").write_text("\n\n".join(notebook_parts(notebook)), encoding="utf-8")
            case _:
                page.write_bytes(source.read_bytes())


def _switch(source: Path) -> str:
    """The line that leads to the page in the other language, where there is one."""
    name = source.name.removesuffix(".md")
    other = name.removesuffix(_CHINESE) if name.endswith(_CHINESE) else f"{name}{_CHINESE}"
    words = "English" if name.endswith(_CHINESE) else "简体中文"
    is_front = source.name.startswith("README")  # which has the link itself
    return f"[{words}]({other}.md)\n\n" if source.with_name(f"{other}.md").exists() and not is_front else ""


def page_text(text: str) -> str:
    """A page's text, with links to notebooks turned to their pages."""
    return DECLARATION.sub(_with_entities, LINK_TO_NOTEBOOK.sub(".md)", text))


def _with_entities(code: re.Match[str]) -> str:
    escaped = MARKUP.sub(lambda sign: f"&#{ord(sign[0])};", html.escape(code[1], quote=False))
    return f"<code>{escaped}</code>"


def notebook_parts(notebook: dict[str, Any]) -> Iterator[str]:
    """The parts of a notebook's page: its prose, its code, and what the code printed."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield page_text(source)
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            if output.get("name") == "stdout":
                yield f"```text\n{''.join(output['text']).rstrip()}\n```"


if __name__ == "__main__":
    main()
