"""Products of matrices, factorisations, transforms and distances."""
