"""The server, driven by a client over its standard input and output as an editor does."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from gpu2npu.editor.answers import lines_of

TEXT = 'import torch\n\n\ndef f(x):\n    "\N{GRINNING FACE}"; torch.cuda.synchronize()\n    return x.to("cuda")\n'
CODE_ACTION = types.ClientCodeActionLiteralOptions(types.ClientCodeActionKindOptions([]))


class Editor:
    """A client with one folder open, and the diagnostics that it was sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = self.opened = folder
        self.client = LanguageClient("editor", "1")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: asyncio.Queue[types.ShowMessageParams] = asyncio.Queue()
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self.published.put_nowait(params))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.put_nowait(params))

    async def start(self, *options: str) -> None:
        await self.client.start_io(sys.executable, "-m", "gpu2npu", "server", "--stdio", *options)
        folders = [types.WorkspaceFolder(self.opened.as_uri(), "project")]
        await self.client.initialize_async(
            types.InitializeParams(capabilities=types.ClientCapabilities(), workspace_folders=folders)
        )
        self.client.initialized(types.InitializedParams())

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def open(self, name: str, text: str) -> list[types.Diagnostic]:
        item = types.TextDocumentItem(self.uri(name), "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.found(name, 1)

    async def change(self, name: str, version: int, text: str) -> None:
        document = types.VersionedTextDocumentIdentifier(uri=self.uri(name), version=version)
        whole = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, whole))

    async def found(self, name: str, version: int) -> list[types.Diagnostic]:
        """The findings in a version of a text; nothing else is published for a newer version."""
        while True:
            got = await self.published.get()
            if got.uri == self.uri(name) and got.version == version:
                return list(got.diagnostics)

    async def actions(self, name: str, line: int, *only: str) -> list[types.CodeAction]:
        place = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext([], only=list(only) or None)
        document = types.TextDocumentIdentifier(self.uri(name))
        answer = await self.client.text_document_code_action_async(types.CodeActionParams(document, place, context))
        return [each for each in answer or [] if isinstance(each, types.CodeAction)]

    async def hover(self, name: str, line: int, column: int) -> str:
        document = types.TextDocumentIdentifier(self.uri(name))
        place = types.Position(line, column)
        answer = await self.client.text_document_hover_async(types.HoverParams(document, place))
        return answer.contents.value if answer and isinstance(answer.contents, types.MarkupContent) else ""

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()


@pytest.fixture
def edit(tmp_path: Path) -> Callable[..., None]:
    """Run a session with a server: `edit(session, *options)`."""

    def run(session: Callable[[Editor], Awaitable[None]], *options: str, folder: str = "") -> None:
        async def whole() -> None:
            editor = Editor(tmp_path)
            editor.opened = tmp_path / folder
            await editor.start(*options)
            await session(editor)
            await editor.stop()

        asyncio.run(asyncio.wait_for(whole(), timeout=300))  # a server that ended would never answer

    return run


def applied(text: str, action: types.CodeAction, uri: str) -> str:
    lines = lines_of(text)
    assert action.edit is not None and action.edit.changes is not None
    for edit in sorted(action.edit.changes[uri], key=lambda edit: edit.range.start.line, reverse=True):
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    return "".join(lines)


def test_a_session(edit: Callable[..., None], tmp_path: Path) -> None:
    async def session(editor: Editor) -> None:
        found = await editor.open("train.py", TEXT)
        assert [(each.code, each.severity) for each in found] == [
            ("torch-cuda", types.DiagnosticSeverity.Information),
            ("device-string", types.DiagnosticSeverity.Information),
        ]
        # In units of UTF-16, in which the character before it counts twice.
        assert found[0].range == types.Range(types.Position(4, 16), types.Position(4, 20))

        fix, all_of_file = await editor.actions("train.py", 4)
        assert fix.title == "torch.cuda.synchronize becomes torch.npu.synchronize"
        uri = editor.uri("train.py")
        expected = TEXT.replace("torch.cuda", "torch.npu").replace("import torch\n", "import torch\nimport torch_npu\n")
        assert applied(TEXT, fix, uri) == expected
        assert applied(TEXT, all_of_file, uri) == expected.replace('"cuda"', '"npu"')
        assert [each.kind for each in await editor.actions("train.py", 4, "source.fixAll")] == ["source.fixAll.gpu2npu"]
        assert "torch.npu.synchronize" in await editor.hover("train.py", 4, 16)

        await editor.change("train.py", 2, "import torch\ntorch.cuda.jiterator._create_jit_fn('')\ntorch.bmm(")
        (broken,) = await editor.found("train.py", 2)
        assert broken.message.startswith("Not checked: ") and broken.severity is types.DiagnosticSeverity.Error
        await editor.change("train.py", 3, "import torch\ntorch.cuda.jiterator._create_jit_fn('')\ntorch.bmm(a, b)\n")
        (left,) = await editor.found("train.py", 3)
        assert (left.code, left.severity) == ("cuda-jiterator", types.DiagnosticSeverity.Error)
        assert "torch.bmm`: native with torch_npu 2.7.1" in await editor.hover("train.py", 2, 7)

        # A text that was never saved, where no folder is open.
        project = types.WorkspaceFolder(editor.opened.as_uri(), "project")
        event = types.WorkspaceFoldersChangeEvent(added=[], removed=[project])
        editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
        item = types.TextDocumentItem("untitled:Untitled-1", "python", 1, TEXT)
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        while (got := await editor.published.get()).uri != item.uri:
            pass
        assert [each.code for each in got.diagnostics] == ["torch-cuda", "device-string"]

    edit(session, "-v", "2.7.1")


def test_names_are_followed_through_saved_files(edit: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch as th\n")

    async def session(editor: Editor) -> None:
        text = "from a import th\nth.cuda.synchronize()\n"
        assert [each.code for each in await editor.open("b.py", text)] == ["torch-cuda"]
        (tmp_path / "a.py").write_text("import numpy as th\n")
        params = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(editor.uri("b.py")))
        editor.client.text_document_did_save(params)
        assert await editor.found("b.py", 1) == []

    edit(session, "-v", "2.7.1")


def test_a_wrong_setting_is_reported(edit: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "gpu2npu.toml").write_text('version = "0.4"\n')

    async def session(editor: Editor) -> None:
        item = types.TextDocumentItem(editor.uri("train.py"), "python", 1, TEXT)
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        message = await editor.messages.get()
        assert message.type is types.MessageType.Error and "0.4" in message.message
        assert await editor.actions("train.py", 4) == [] and await editor.hover("train.py", 4, 16) == ""

    edit(session)


def test_what_changes_in_the_project_counts_in_all_that_is_open(edit: Callable[..., None], tmp_path: Path) -> None:
    """Other files that are saved or changed elsewhere, new files, and folders that are opened later."""
    inside, outside = tmp_path / "inside", tmp_path / "beside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.py").write_text("import numpy as th\n")
        (folder / "b.py").write_text("from a import th\nth.cuda.synchronize()\n")

    async def session(editor: Editor) -> None:
        text = (inside / "b.py").read_text()
        assert await editor.open("inside/b.py", text) == []
        (inside / "a.py").write_text("import torch as th  # anew\n")
        changed = types.FileEvent(editor.uri("inside/a.py"), types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
        assert [each.code for each in await editor.found("inside/b.py", 1)] == ["torch-cuda"]

        (outside / "a.py").write_text("import torch as th  # anew\n")
        assert await editor.open("beside/b.py", text) == []  # of no folder: a file by itself
        event = types.WorkspaceFoldersChangeEvent([types.WorkspaceFolder(outside.as_uri(), "beside")], [])
        editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
        assert [each.code for each in await editor.found("beside/b.py", 1)] == ["torch-cuda"]

    edit(session, "-v", "2.7.1", folder="inside")


def test_a_text_is_shown_by_its_own_address_and_not_once_it_is_closed(edit: Callable[..., None]) -> None:
    async def session(editor: Editor) -> None:
        assert len(await editor.open("a#b.py", TEXT)) == 2
        saved = types.TextDocumentIdentifier(editor.uri("a#b.py"))
        editor.client.text_document_did_save(types.DidSaveTextDocumentParams(saved))
        assert len(await editor.found("a#b.py", 1)) == 2
        long = types.TextDocumentItem(editor.uri("long.py"), "python", 1, TEXT + "y = f(1)\n" * 5_000)  # others wait
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(long))
        item = types.TextDocumentItem(editor.uri("closed.py"), "python", 1, TEXT)
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        closed = types.TextDocumentIdentifier(item.uri)
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(closed))
        last = types.TextDocumentItem(editor.uri("last.py"), "python", 1, TEXT)
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(last))
        shown = {}
        while last.uri not in shown:
            got = await editor.published.get()
            shown[got.uri] = got.diagnostics
        assert list(shown[item.uri]) == []

    edit(session, "-v", "2.7.1")
