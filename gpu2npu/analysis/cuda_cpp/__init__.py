"""A project's own C++ and CUDA sources, what builds them and what calls them."""
