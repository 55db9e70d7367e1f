"""Recording a training program without its help: what modules are given and return, gradients, losses, steps."""
