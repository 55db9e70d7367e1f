"""The suite under each Python that is supported: `nox -s tests`, or `nox -s tests-3.12 -- tests/engine`.

A Python that is not installed is skipped, and named so.
"""

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Run the suite, or the part of it that is named after `--`."""
    session.install("--constraint", "constraints.txt", "--editable", ".[emulator,tables,editor,dev]")
    session.run("pytest", *(session.posargs or ["-n", "auto"]))
