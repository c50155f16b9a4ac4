"""What the emitter tells the observer of a program (`Program.notes`)."""

#: The gradient function returns tensors and tuples only, whatever containers the case's outputs have.
STOPPED = "outputs are tensors and tuples alone"
