"""`gpu2npu`, and `python -m gpu2npu`."""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):  # from Python 3.11 on
    # `-m` puts the current folder first: a project with a `re.py` of its own would be imported in Python's place.
    sys.path.pop(0)


def main() -> None:
    """Run the command. Ctrl-C and SIGTERM wait for its imports, and then end it with a sentence."""
    import signal

    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    from gpu2npu.cli import main as command

    command.main()


if __name__ == "__main__":
    main()
