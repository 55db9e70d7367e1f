"""Writers. They receive records and recompute nothing."""
