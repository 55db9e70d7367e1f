"""`python -m gpu2npu`."""

from gpu2npu.cli.main import main

if __name__ == "__main__":
    main()
