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


#: Names and labels of many scripts: short, of 200 characters, with stacked marks, joined emoji and both directions.
SCRIPTS = {
    "年齢層" * 30: ["二十歳未満", "歳" * 200, "ﾊﾝｶｸ"],
    "الفئة العمرية للمستجيبين " * 8: ["أقل من عشرين", "ع" * 200, "لا أعرف (other) ١٢"],
    "👩\u200d👩\u200d👧\u200d👦" * 20: ["👍🏽", "🇩🇪🇫🇷🇯🇵" * 12, "🏳️\u200d🌈"],
    "e\u0301\u0323\u0302" * 60: ["Z\u0351\u036b\u0343\u036a\u0302" * 30, "ñ", "한국어" * 40],
    "गृह विज्ञान क्षेत्र " * 10: ["क्षत्रिय" * 20, "ก็ที่นี่" * 20, "no-break\u00a0space" * 12],
    "W" * 200: ["i" * 200, "m m m " * 33, "שָׁלוֹם עוֹלָם " * 14],
}


def scripts() -> tuple[qf.Release, qf.Model]:
    """Names that are wide, tall, long or run the other way."""
    domain = qf.Domain(SCRIPTS)
    return pair(domain, qf.structures.chain(domain))


def large() -> tuple[qf.Release, qf.Model]:
    """100 attributes, one of them with 200 labels."""
    domain = qf.Domain({f"attribute {i}": 3 if i else 200 for i in range(100)})
    return pair(domain, qf.structures.tree(domain, seed=1), total=10_000)


def survey(columns: int = 60) -> tuple[qf.Release, qf.Model]:
    """Columns of 2 to 20 values, one of 300, and a table of two that is too large to draw."""
    sizes = [300, 50, *(2 + i % 19 for i in range(columns - 2))]
    domain = qf.Domain({f"q{i:03d} <b>": size for i, size in enumerate(sizes)})
    names = list(domain)
    cliques = [(names[0], names[1]), *((names[i], names[i // 3 + 1]) for i in range(2, columns - 1))]
    return pair(domain, cliques, total=20_000)
