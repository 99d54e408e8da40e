"""Releases and models to report on, made without a fit so that the tests are quick."""

import numpy as np

import quietfield as qf

HOSTILE = {
    '<script>alert("x")</script>': ["a\"'<b>", "&amp;", "نعم", "لا"],
    "الجنس": ["ذكر", "أنثى"],
    "年齢層": ["二十歳未満", "二十歳以上", "不明"],
    "long " + "x" * 300: ["y" * 200, "z"],
    "{{ page.title }}": ["א", "two\nlines", "\u202egnorw"],
    "free": 3,
}


def pair(
    domain: qf.Domain, cliques, total: float = 5000, noise=None, seed: int = 0, spread: float = 0.8
) -> tuple[qf.Release, qf.Model]:
    """A model and noisy tables that it explains."""
    random = np.random.default_rng(seed)
    noise = noise or qf.Laplace(10.0)
    structure = qf.Structure.of(cliques, domain)
    model = qf.Model(domain, {c: spread * random.normal(size=domain.table_shape(c)) for c in structure})
    tables = {
        c: random.multinomial(int(total), p.ravel()).reshape(p.shape) + random.laplace(scale=noise.scale, size=p.shape)
        for c, p in model.marginals().items()
    }
    return qf.Release.from_tables(domain, tables, noise=noise, total=total), model


def hostile() -> tuple[qf.Release, qf.Model]:
    """Names with quotes, HTML, templates, three scripts, control characters, and very long ones."""
    domain = qf.Domain(HOSTILE, impossible=[{"الجنس": "ذكر", "年齢層": "不明"}])
    return pair(domain, qf.structures.chain([name for name in domain if name != "free"]))


def large() -> tuple[qf.Release, qf.Model]:
    """100 attributes, one of them with 200 labels."""
    domain = qf.Domain({f"attribute {i}": 3 if i else 200 for i in range(100)})
    return pair(domain, qf.structures.tree(domain, seed=1), total=10_000)
