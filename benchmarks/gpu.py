"""All marginals and log Z on an accelerator: T=20, s=64, order 3, in float32 and float64, beside mbi on the same card.

``python -m benchmarks.gpu`` on a machine with a GPU writes docs/results/inference-gpu.json (``--out`` says where else);
on others it says so and stops. ``--page`` writes docs/results/inference-gpu.md from the file, on any machine.
"""

import argparse
import json
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._pages import RESULTS, where, write_page
from quietfield import inference, structures
from quietfield.domain import Domain

T, S, CALLS = 20, 64, 20


def seconds(call, arguments):
    """The median time of a call whose result is waited for."""
    jax.block_until_ready(call(arguments[0]))
    times = []
    for argument in arguments * 3:
        start = time.perf_counter()
        jax.block_until_ready(call(argument))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def pipelined(call, arguments):
    """The time of a call in a queue of calls: what a loop on the device sees, without the wait for the host."""
    jax.block_until_ready(call(arguments[0]))
    start = time.perf_counter()
    jax.block_until_ready([call(argument) for argument in arguments * 3])
    return (time.perf_counter() - start) / (3 * len(arguments))


def floors(dtype):
    """What the card does at best: bytes a second of a copy, multiply-adds a second of a large matrix product."""
    big = jnp.ones(2**28 if dtype == np.float32 else 2**27, dtype)
    copy = jax.jit(lambda x: x + 1)
    bandwidth = 2 * big.nbytes / pipelined(copy, [big] * 4)
    a = jnp.ones((8192, 8192), dtype)
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST))
    return bandwidth, 8192**3 / pipelined(product, [a] * 3)


def measure(dtype):
    domain = Domain({f"x{i}": S for i in range(T)})
    structure = structures.chain(domain, 3)
    engine = inference.engine(domain, structure)
    random = np.random.default_rng(0)
    host = [{c: random.normal(size=(S, S)).astype(dtype) for c in structure} for _ in range(CALLS)]
    flat = [engine.layout.pack(p, dtype) for p in host]
    kernel = engine.kernel(flat[0])
    on_card = [jnp.asarray(theta) for theta in flat]
    start = time.perf_counter()
    jax.block_until_ready(engine.compiled(kernel)(on_card[0]))
    result = {
        "dtype": np.dtype(dtype).name,
        "kernel": kernel,
        "first_call_s": time.perf_counter() - start,
        "quietfield_ms": 1e3 * seconds(engine.compiled(kernel), on_card),
        "quietfield_queued_ms": 1e3 * pipelined(engine.compiled(kernel), on_card),
    }
    batch = jnp.stack(on_card[:8])
    result["quietfield_batch_of_8_ms_each"] = 1e3 * pipelined(engine.compiled(kernel, batch=True), [batch] * 3) / 8
    mine = engine.layout.unpack(np.asarray(engine.compiled(kernel)(on_card[0])[0]))
    bandwidth, rate = floors(dtype)
    operations = 3 * 17 * S**4 + 3 * sum(S**k for k in (4, 3, 2))
    # The messages and products of the forward and backward pass, each written once and read once.
    moved = 17 * 2 * 8 * S**3 * np.dtype(dtype).itemsize
    result |= {
        "copy_bytes_per_s": bandwidth,
        "multiply_adds_per_s": rate,
        "arithmetic_floor_ms": 1e3 * operations / rate,
        "bandwidth_floor_ms": 1e3 * moved / bandwidth,
    }
    import mbi
    from mbi import marginal_oracles

    space = mbi.Domain(domain.attributes, domain.shape)
    vectors = [
        mbi.CliqueVector(
            space, list(structure), {c: mbi.Factor(space.project(c), jnp.asarray(p[c])) for c in structure}
        )
        for p in host
    ]
    show(result)
    # Not the others: einsum_marginals plans, hugin and shafer_shenoy compile, for minutes at this size.
    for name in ("message_passing_fast", "message_passing_implicit"):
        oracle = jax.jit(getattr(marginal_oracles, name))
        try:
            found = oracle(vectors[0])
            worst = max(float(np.abs(np.asarray(found[c].values) - mine[c]).max()) for c in structure)
            result[f"mbi_{name}_ms"] = 1e3 * seconds(oracle, vectors)
            result[f"mbi_{name}_queued_ms"] = 1e3 * pipelined(oracle, vectors)
            result[f"mbi_{name}_difference"] = worst
        except Exception as error:  # noqa: BLE001  # a peer that fails is reported, not hidden
            result[f"mbi_{name}_failed"] = f"{type(error).__name__}: {str(error)[:80]}"
        show({key: value for key, value in result.items() if name in key})
    return result


def show(figures):
    """What is known so far, for whoever watches; the file is written at the end."""
    print(json.dumps(figures), file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "inference-gpu.json")
    parser.add_argument("--page", action="store_true", help="write the page from the file")
    asked = parser.parse_args()
    if asked.page:
        write_page("inference-gpu")
        return 0
    if jax.default_backend() == "cpu":
        print("No accelerator is visible to JAX: nothing measured.")
        return 0
    jax.config.update("jax_enable_x64", True)
    found = {"jax": jax.__version__, "mbi": version("mbi"), "T": T, "S": S, "calls": 3 * CALLS, **where()}
    found |= {"machine": str(jax.devices()[0].device_kind), "results": [measure(np.float32), measure(np.float64)]}
    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
