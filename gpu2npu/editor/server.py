"""The language server: the features of the protocol, by pygls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lsprotocol import types
from msgspec import Struct
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from gpu2npu import __version__
from gpu2npu.editor.answers import FIX_ALL, Places, actions, diagnostics
from gpu2npu.editor.open_project import resolved
from gpu2npu.editor.session import Checked, EditorSession
from gpu2npu.project.errors import UsageError
from gpu2npu.project.settings import Settings

_WATCHED = "**/*.{py,toml,json}"  # the program, its settings and its rules
_UNSAVED = "untitled:"
_KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


def language_server(settings: Settings) -> LanguageServer:
    """A server for one editor; `settings` have the version and the rules."""
    server = LanguageServer("gpu2npu", __version__)
    session = EditorSession(settings)
    documents = _Documents(server, session)
    _follow_texts(server, documents)
    _follow_files(server, documents)
    _answer_questions(server, session)
    return server


class _Documents(Struct, frozen=True):
    """The texts that are open in the editor."""

    server: LanguageServer
    session: EditorSession

    async def publish(self, uri: str) -> None:
        """Show what is found in a text."""
        document, texts = self.server.workspace.get_text_document(uri), self.server.workspace.text_documents
        version, text = document.version, document.source

        def check() -> Checked | None:
            return _checked(self.session, uri, text) if document.version == version else None

        try:
            checked = await self.session.work(check)
        except Exception as error:  # an editor shows nothing of what a server writes elsewhere
            message = str(error) if isinstance(error, UsageError) else f"an internal error in {uri}: {error!r}"
            self.server.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"gpu2npu: {message}"))
            return
        if document in texts.values() and document.version == version:  # else another check of it is on its way
            found = list(diagnostics(checked, document.position_codec)) if checked is not None else []
            self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    async def refresh(self, uris: Sequence[str]) -> None:
        """Take in files that changed on the disk, and check all that is open: its names may mean something else now."""
        for name in filter(None, map(to_fs_path, uris)):
            await self.session.work(partial(self.session.refresh, name))
        for document in list(self.server.workspace.text_documents.values()):
            await self.publish(document.uri)

    def follow_folders(self) -> None:
        """Take the folders that are open from the editor."""
        names = (to_fs_path(folder.uri) for folder in self.server.workspace.folders.values())
        self.session.folders = tuple(resolved(name) for name in names if name is not None)


def _follow_texts(server: LanguageServer, documents: _Documents) -> None:
    """Check a text when it is opened, changed or saved."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        await documents.publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(params: types.DidChangeTextDocumentParams) -> None:
        await documents.publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        await documents.refresh([params.text_document.uri])

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def _follow_files(server: LanguageServer, documents: _Documents) -> None:
    """Follow the folders that are open, and what other programs change in them, where the editor says it."""

    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        documents.follow_folders()
        workspace = server.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace is not None else None
        if watching is not None and watching.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(_WATCHED)])
            files = types.Registration("files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            server.client_register_capability(types.RegistrationParams([files]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def did_change_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        documents.follow_folders()
        await documents.refresh([])

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def did_change_files(params: types.DidChangeWatchedFilesParams) -> None:
        await documents.refresh([event.uri for event in params.changes])


def _answer_questions(server: LanguageServer, session: EditorSession) -> None:
    """Answer what is at a place, and how it can be mended. A wrong setting was said when the text was checked."""

    def checked_now(uri: str, text: str) -> Checked | None:
        try:
            return _checked(session, uri, text)
        except UsageError:
            return None

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        document = server.workspace.get_text_document(uri)
        text = document.source
        at = Places(document.position_codec, text).position(params.position)

        def answer() -> str:
            checked = checked_now(uri, text)
            return checked.hover(at) if checked is not None else ""

        shown = await session.work(answer)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, shown)) if shown else None

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=_KINDS))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        document = server.workspace.get_text_document(uri)
        text = document.source
        checked = await session.work(lambda: checked_now(uri, text))
        return list(actions(checked, document.position_codec, params)) if checked is not None else []


def _checked(session: EditorSession, uri: str, text: str) -> Checked | None:
    """Check the text of a file; None for one that is not a file of this machine."""
    name = to_fs_path(uri)
    if uri.startswith(_UNSAVED):  # a module of the first folder that is open, or of an empty one
        name = str((session.folders or (session.nowhere,))[0] / f"{Path(name or 'untitled').stem}.py")
    return session.check(name, text) if name is not None else None
