"""Code that stays as it is wherever it is: compiled by TorchScript, or differentiated twice."""
