"""The benchmarks that `make bench` runs: side-by-side ratios on one machine, never absolute promises."""
