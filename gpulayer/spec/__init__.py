"""The vocabulary: what parts of GPUlayer say to each other, as frozen values without I/O."""
