"""Running a program of somebody's own, with and without recomputation, in a worker process."""
