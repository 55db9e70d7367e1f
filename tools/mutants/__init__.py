"""`make mutants`: small faults put into a sample of the code's expressions, and the tests that have to fail.

    python -m tools.mutants --count 60 --seed 1 gpu2npu/engine

A copy of the repository holds all of them at once, each behind a condition (`schemata.py`, `switch.py`). Processes that
have imported everything and collected the tests fork a child for each run of tests (`warm.py`, `warm_tests.py`): first
without a mutant, to learn which tests reach which; then for each mutant. What such a child cannot switch, since it is
code that runs at import, and what survives there, is judged with the mutant in the file and a new process
(`copies.py`). `judgement.py` has the order of it all.
"""
