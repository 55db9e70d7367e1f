"""The ways of values and of control through a program."""
