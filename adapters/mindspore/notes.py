"""What the emitter tells the observer of a program (`Program.notes`)."""

#: What the gradient function hands out is made of tensors and tuples, whatever the case puts out.
STOPPED = "outputs are tensors and tuples alone"
