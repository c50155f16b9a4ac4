"""The exit statuses of all commands, in one place."""

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """How a command ended; each member's number is the status that the shell sees."""

    OK = 0
    UNEXPECTED = 1
    BAD_INPUT = 2
    BROKEN_ADAPTER = 3
    NOT_WRITTEN = 4
    INTERRUPTED = 130
    TERMINATED = 143


#: What each means, in the words of `--help` and of the documentation.
MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "nothing unexpected",
    Exit.UNEXPECTED: "unexpected verdicts; a new disagreement; something is worse",
    Exit.BAD_INPUT: "bad input: a case, an option, a file of results",
    Exit.BROKEN_ADAPTER: "an adapter cannot run: its framework is missing or does not start",
    Exit.NOT_WRITTEN: "results could not be written: a full disk, a folder that is read-only",
    Exit.INTERRUPTED: "interrupted (SIGINT): what was finished is kept",
    Exit.TERMINATED: "ended (SIGTERM): what was finished is kept",
}
