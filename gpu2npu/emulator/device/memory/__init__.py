"""Device memory: its accounting, storages, and the operators that only allocate and copy."""
