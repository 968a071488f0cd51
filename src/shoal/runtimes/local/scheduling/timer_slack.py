"""Timer slack: how much later than asked for the operating system may end a thread's sleeps and timed waits."""

import ctypes

SLACK_NS = 1_000
_PR_SET_TIMERSLACK = 29


def exact_timers() -> bool:
    """Have the sleeps of the calling thread end within a microsecond; returns whether the system can do that.

    Linux lets them last 50 us longer by default, so that it can end several at once. Workers sleep for 30 and wait for
    300 us at a time, and several such waits add up to the latency of a result.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, TypeError, AttributeError):
        return False  # not Linux
    arguments = (ctypes.c_ulong(SLACK_NS), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return bool(prctl(ctypes.c_int(_PR_SET_TIMERSLACK), *arguments) == 0)
