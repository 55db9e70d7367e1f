"""Tools for the maintainers of this repository; nothing that is installed imports them."""
