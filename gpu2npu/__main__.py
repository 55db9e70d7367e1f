"""`python -m gpu2npu`."""

import sys

if __name__ == "__main__":
    # `-m` puts the current folder first: a project with a `re.py` of its own would be imported in Python's place.
    if not getattr(sys.flags, "safe_path", False):  # from Python 3.11 on
        sys.path.pop(0)

    from gpu2npu.cli.main import main

    main()
