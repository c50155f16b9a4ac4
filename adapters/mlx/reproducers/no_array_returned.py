"""A checkpointed function that returns no array crashes the process."""

import subprocess
import sys

import mlx.core as mx

if "child" in sys.argv:
    mx.checkpoint(lambda x: None)(mx.ones(3))
else:
    child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, check=False)
    assert child.returncode < 0
