"""What runs in the worker process: it knows programs and observations, and no case or expectation."""
