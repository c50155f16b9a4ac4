"""What the emitter and the observer of a program agree on: its notes."""

#: The parameters are sharded over the ranks.
SHARDED = "parameters are sharded"
#: Layers are split over the ranks.
SPLIT = "layers are split"
