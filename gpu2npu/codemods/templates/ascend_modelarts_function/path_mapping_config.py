"""The paths of the program, and where they are on ModelArts. Fill this in; a path that is not under one of these stays.

Keys are paths as the program has them, values the folders or files that they stand for: of OBS (obs://bucket/folder,
s3://bucket/folder), or on the machine itself. Of several that fit the longest counts.
"""

PATH_MAPPING = {
    # "/data/imagenet": "obs://my-bucket/imagenet",
    # "./checkpoints": "obs://my-bucket/checkpoints",
}

# Where files of OBS are kept while the program runs.
CACHE = "/cache/ascend_modelarts"
