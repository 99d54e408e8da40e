"""Ctrl-C: a command ends within about a second, whatever it is doing, and leaves nothing half-written.

Python tells the main thread of an interrupt by an exception, and that alone is not enough here. While JAX compiles, the
main thread is in foreign code, sometimes for minutes, and sees no exception. Raised while a compiled module is being
loaded, one can crash the process; raised in a callback of the garbage collector, it is ignored. So the exception waits
until modules are loaded, is raised again where it was ignored, and a second thread ends the process where it is not
seen within a second, or where Ctrl-C is pressed twice.

Being told to end (SIGTERM), or that the terminal is gone (SIGHUP), is the same: what is paid for is kept.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

import typer

PATIENCE = 1.0  # seconds until the process is ended from outside of the main thread
ENDS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
AGAIN = 0.02  # seconds until an exception that could not be raised is tried again
_advice: list[str] = []  # what is said once where the work at hand is interrupted


class Interrupts:
    """While entered, Ctrl-C raises KeyboardInterrupt where that is safe, and calls ``leave`` where it is not seen.

    ``leave`` is called in another thread and must end the process. Elsewhere than in the main thread, and on systems
    without timers of signals, nothing changes.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self.leave = leave
        self.raised = threading.Event()
        self.before: dict[int, Any] = {}
        self.lost = 0  # how often the exception was ignored

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
            return self
        self.heard, self.told = socket.socketpair()
        self.told.setblocking(False)
        # What is ignored stays so: nohup has a command outlive its terminal.
        heard = [number for number in ENDS[1:] if signal.getsignal(number) != signal.SIG_IGN]
        for number in (signal.SIGINT, signal.SIGALRM, *heard):
            self.before[number] = signal.signal(number, self._asked)
        signal.set_wakeup_fd(self.told.fileno(), warn_on_full_buffer=False)
        self.hook, sys.unraisablehook = sys.unraisablehook, self._ignored
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if not self.before:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.set_wakeup_fd(-1)
        for number, handler in self.before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self.hook
        self.told.close()  # the other thread hears of it, and ends

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if _loading(frame):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            return
        self.raised.set()
        raise KeyboardInterrupt

    def _ignored(self, what: Any) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            self.hook(what)
            return
        self.lost += 1
        if self.lost * AGAIN > PATIENCE:
            self._end()
        self.raised.clear()
        signal.setitimer(signal.ITIMER_REAL, AGAIN)

    def _watch(self) -> None:
        """Hear of signals at once, even where the main thread is in foreign code."""
        times = 0
        with self.heard:
            while numbers := self.heard.recv(64):
                if signal.getsignal(signal.SIGINT) != self._asked:
                    continue  # some work has its own way to be interrupted
                times += sum(numbers.count(number) for number in ENDS if number in self.before)
                if times and (times > 1 or not self.raised.wait(PATIENCE)):  # other signals are told here too
                    self._end()

    def _end(self) -> None:
        with suppress(IndexError, OSError):  # nothing to say, or nobody to read it
            os.write(2, f"{_advice.pop()}\n".encode(errors="replace"))
        self.leave()


@contextmanager
def advise(text: str) -> Iterator[None]:
    """Say how to go on if the work within is interrupted, wherever that is seen."""
    _advice.append(text)
    try:
        yield
    except KeyboardInterrupt:
        while _advice:
            typer.echo(_advice.pop(), err=True)
        raise
    finally:
        _advice.clear()


def _loading(frame: FrameType | None) -> bool:
    """Whether a module is being loaded."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
