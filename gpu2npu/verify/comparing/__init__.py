"""Two recordings of one program compared: how far they are apart, where first, and why."""
