"""The constants that the writer and the reader of a recording share."""

VERSION = 1  # of the format; a reader refuses others
BUCKETS = 32  # numbers in a sketch
EVENTS = "events.jsonl"
SKETCHES = "sketches.f32"  # float32, BUCKETS to a row
TRACEBACK = "traceback.txt"  # of a process that failed
