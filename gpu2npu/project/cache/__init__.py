"""The answers of earlier runs on disk, with all that each depends on."""
