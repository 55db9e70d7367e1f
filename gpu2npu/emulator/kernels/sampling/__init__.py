"""Pictures and volumes sampled between their points."""
