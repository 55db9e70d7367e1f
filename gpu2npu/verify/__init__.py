"""`gpu2npu verify`: the original program against the migrated one, recorded by the same means and compared.

`reference` is the device on which the original runs where there is no GPU, `recording` is what both programs are
recorded with, `comparing` finds the first divergence. `programs` starts the two; `site` is put on PYTHONPATH.
"""
