"""Properties are never timed: on a loaded machine the first example alone may take longer than hypothesis allows."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
