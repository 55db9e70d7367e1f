"""The constants that the writer and the reader of a recording share."""

import numpy as np

VERSION = 2  # of the format; a reader refuses others
BUCKETS = 32  # numbers in a sketch
FIRST = 4  # elements of a tensor that are kept as they are
EVENTS = "events.jsonl"
TENSORS = "tensors.rows"  # what is recorded of each tensor, a ROW each
ROW = np.dtype(
    [
        ("sketch", "<f4", (BUCKETS,)),
        ("norm", "<f8"),
        ("mean", "<f8"),
        ("largest", "<f8"),
        ("unfinite", "<i8"),
        ("first", "<f8", (FIRST,)),  # 0 beyond the last element
    ]
)
CARD = "@"  # between a module's name and the number of the card, of copies that DataParallel makes
STATE_OF = " of "  # between what an optimizer keeps and the name of the parameter that it is kept for
WHOLE = "whole"  # the folder of whole tensors
TRACEBACK = "traceback.txt"  # of a process that failed
RANK = "rank="  # its first line, with the number, where there are several
