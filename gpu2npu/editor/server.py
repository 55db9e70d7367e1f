"""The language server: the features of the protocol, by pygls."""

from __future__ import annotations

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from gpu2npu import __version__
from gpu2npu.editor.answers import FIX_ALL, Places, actions, diagnostics
from gpu2npu.editor.open_project import resolved
from gpu2npu.editor.session import Checked, Session
from gpu2npu.project.check.request import CheckRequest
from gpu2npu.project.errors import UsageError

_KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


def language_server(request: CheckRequest) -> LanguageServer:
    """A server for one editor; `request` has the version and the rules."""
    server = LanguageServer("gpu2npu", __version__)
    session = Session(request)
    _publish_findings(server, session)
    _answer_questions(server, session)
    return server


def _publish_findings(server: LanguageServer, session: Session) -> None:
    """Check a text when it is opened, changed or saved. What was saved may change what other files mean."""

    async def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        version, text = document.version, document.source
        try:
            checked = await session.work(lambda: _checked(session, uri, text) if document.version == version else None)
        except Exception as error:  # an editor shows nothing of what a server writes elsewhere
            said = str(error) if isinstance(error, UsageError) else f"an internal error in {uri}: {error!r}"
            server.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"gpu2npu: {said}"))
            return
        if document.version == version:  # else another check of it is on its way
            found = list(diagnostics(checked, document.position_codec)) if checked is not None else []
            server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        names = (to_fs_path(folder.uri) for folder in server.workspace.folders.values())
        session.folders = tuple(resolved(name) for name in names if name is not None)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        await publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(params: types.DidChangeTextDocumentParams) -> None:
        await publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        name = to_fs_path(params.text_document.uri)
        if name is not None:
            await session.work(lambda: session.forget(name))
        await publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def _answer_questions(server: LanguageServer, session: Session) -> None:
    """Answer what stands at a place, and how it can be mended. A wrong setting was said when the text was checked."""

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


def _checked(session: Session, uri: str, text: str) -> Checked | None:
    """Check the text of a file; None for one that is not a file of this machine."""
    name = to_fs_path(uri)
    return session.check(name, text) if name is not None else None
