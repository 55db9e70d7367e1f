"""DataParallel becomes DistributedDataParallel, with what the program around it needs for that."""
