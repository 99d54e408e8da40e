"""How much memory this machine can give to a computation."""

from pathlib import Path


def available_memory() -> int:
    """Bytes that can be had without swapping: the free memory, or a container's limit where that is lower."""
    import psutil

    limits = [psutil.virtual_memory().available]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        if Path(limit).exists() and Path(used).exists() and (text := Path(limit).read_text().strip()).isdigit():
            limits.append(max(0, int(text) - int(Path(used).read_text())))
    return int(min(limits))


def readable_bytes(count: float) -> str:
    """A number of bytes as people write it."""
    if count >= 1e21:
        return "an astronomical amount"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"
