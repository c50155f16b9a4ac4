"""Running a user's program, with and without recomputation, in a worker process."""
