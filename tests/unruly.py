"""The miniature adapter with variants that do something to the process that they run in."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests import mini

_WAYS = """

def misbehave(way, other=misbehave):
    import ctypes, subprocess, sys, threading

    def soon(act, *arguments):
        threading.Timer(0.3, act, arguments).start()  # when the answer is sent

    if way == "stops":
        soon(os.kill, os.getpid(), signal.SIGSTOP)
    elif way == "holds-lock":
        soon(ctypes.PyDLL(None).sleep, 600)
    elif way == "holds-lock-now":
        ctypes.PyDLL(None).sleep(600)
    elif way == "patches":
        import pickle, select
        os.read = os.write = time.monotonic = select.poll = lambda *_: time.sleep(600)
        pickle.dumps = pickle.loads = os.getpid = None
    elif way == "prints":
        line = b"x" * 99 + b"\\n"
        os.write(1, b"the beginning\\n")
        for _ in range(2000):
            os.write(1, line * 100)
        os.write(2, b"the end\\n")
    elif way == "exits":
        os._exit(0)
    elif way in ("has-children", "leaves-children"):
        child = subprocess.Popen(["sleep", "600"])
        print("child", child.pid, flush=True)
        if way == "leaves-children":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    elif way == "leaves":
        sys.exit("enough")
    elif way == "interrupts":
        raise KeyboardInterrupt
    elif way == "own-base":
        raise type("Own", (BaseException,), {})("of a class of its own")
    elif way == "no-text":
        raise type("Mute", (ValueError,), {"__str__": lambda self: 1 / 0})
    elif way == "own-text":
        class Text(str):
            pass
        raise type("Odd", (ValueError,), {"__str__": lambda self: Text("of a string's class")})
    elif way == "escapes":
        raise ValueError("\\x1b[2J\\x1b]0;mine\\x07 over\\rwritten \\u202eleft \\ud800 half")
    elif way == "slow":
        time.sleep(0.1)
    elif way == "endless":
        time.sleep(600)
    elif way == "late-once" and os.environ["EVERY_SECOND"] == "no":
        time.sleep(600)
    elif way == "flaky" and os.environ["EVERY_SECOND"] == "yes":
        raise RuntimeError("every second time")
    else:
        other(way)


if "EVERY_SECOND" not in os.environ:  # the first time in this process
    try:
        os.close(os.open(FLAG, os.O_CREAT | os.O_EXCL))
        os.environ["EVERY_SECOND"] = "no"
    except FileExistsError:
        os.remove(FLAG)
        os.environ["EVERY_SECOND"] = "yes"
"""
WAYS = (
    *("stops", "holds-lock", "holds-lock-now", "patches", "prints", "exits", "has-children"),
    *("leaves-children", "slow", "endless", "flaky", "late-once"),
    *("leaves", "interrupts", "own-base", "no-text", "own-text", "escapes"),
)


def make(folder: Path, time_limit: float = 600) -> Path:
    """Make the adapter in a folder; its time limit is in seconds. Returns the folder."""
    shutil.copytree(mini.ADAPTERS / "mini", folder)
    (folder / "known.yaml").unlink()
    for cache in folder.rglob("__pycache__"):
        shutil.rmtree(cache)
    with (folder / "mini.py").open("a") as file:
        file.write(f"\n\nFLAG = {str(folder / 'flag')!r}\n" + _WAYS)
    text = (
        (folder / "adapter.yaml")
        .read_text()
        .replace("time_limit: 3", f"time_limit: {time_limit:g}")
    )
    text = text.replace("name: mini", "name: unruly")
    variants = "".join(f"  {way}: {{title: {way}, discipline: whole}}\n" for way in WAYS)
    (folder / "adapter.yaml").write_text(text + variants)
    return folder
