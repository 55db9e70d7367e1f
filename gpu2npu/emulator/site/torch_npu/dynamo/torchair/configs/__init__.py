"""Options of torchair."""
