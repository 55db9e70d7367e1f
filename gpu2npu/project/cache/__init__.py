"""What earlier runs found out, on disk, with all that it depends on."""
