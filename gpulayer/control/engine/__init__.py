"""The pure core of the control plane: placement and transitions. Values and a time in, values out; no I/O."""
