"""An analysis of a project, and its modes."""
