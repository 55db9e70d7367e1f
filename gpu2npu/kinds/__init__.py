"""The kinds of matches, a module for each with all that is to know about one: a new kind is a new module here."""
