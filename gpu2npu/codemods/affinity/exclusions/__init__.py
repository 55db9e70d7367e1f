"""Code that stays as it is wherever it stands: compiled by TorchScript, or differentiated twice."""
