"""Proposes rules from a project before and after a migration by hand.

`alignment` pairs the statements of two versions of a file, `python` and `configurations` say which rule would make each
difference, `generalization` turns what a difference needs into a pattern of code, `proposals` joins the differences
that one rule makes and gives it examples, and `proof` applies the rules and counts what they leave.
"""
