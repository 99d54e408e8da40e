"""``quietfield plan``."""

import json

import pytest

import quietfield as qf
from quietfield.cli import main


def test_plan_prints_the_figures(tmp_path, capsys):
    (tmp_path / "domain.json").write_text('{"a": 10, "b": 10, "c": 10}')
    assert main(["plan", str(tmp_path / "domain.json"), "--structure", "complete"]) == 0
    out = capsys.readouterr().out
    assert "treewidth  at most 2" in out
    assert "1,000 cells" in out
    assert "Exact inference fits." in out


def test_plan_reads_a_schema_and_answers_programs(tmp_path, capsys):
    qf.Schema({"age": qf.Cuts([18, 65]), "sex": ["f", "m"]}).save(tmp_path / "schema.json")
    assert main(["plan", str(tmp_path / "schema.json"), "--structure", "chain", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["fits"] is True
    assert figures["largest_table_cells"] == 6


def test_plan_says_what_does_not_fit(tmp_path, capsys):
    (tmp_path / "domain.json").write_text(json.dumps({f"x{i}": 10 for i in range(30)}))
    assert main(["plan", str(tmp_path / "domain.json"), "--structure", "complete"]) == 0
    assert "Does not fit: exact inference would need" in capsys.readouterr().out


def test_mistakes_get_one_sentence(tmp_path, capsys):
    assert main(["plan", str(tmp_path / "absent.json"), "--structure", "chain"]) == 1
    assert capsys.readouterr().err.startswith("Error: cannot read")
    (tmp_path / "domain.json").write_text('{"a": 2}')
    assert main(["plan", str(tmp_path / "domain.json"), "--structure", "spiral"]) == 1
    assert "is not known" in capsys.readouterr().err


def test_options_of_a_rehearsal_go_with_it(tmp_path, capsys):
    (tmp_path / "domain.json").write_text('{"a": 2, "b": 3}')
    asked = ["plan", str(tmp_path / "domain.json"), "--structure", "chain"]
    for words, said in (
        (["--error", "2%", "--seed", "1"], "'--error', '--seed'"),
        (["--noise", "both"], "--noise both"),
        (["--epsilon", "1,2"], "several epsilons"),
    ):
        assert main([*asked, *words]) == 1
        assert capsys.readouterr().err.strip() == f"Error: {said} is for a rehearsal: add --rehearse."
    assert main([*asked, "--rehearse"]) == 1
    assert "--records 10000" in capsys.readouterr().err


def test_total_and_weights_change_the_noise_that_is_planned(tmp_path, capsys):
    (tmp_path / "domain.json").write_text('{"a": 2, "b": 3, "c": 2}')
    (tmp_path / "weights.json").write_text('[[["a", "b"], 4]]')

    def stds(*words):
        asked = ["plan", str(tmp_path / "domain.json"), "--structure", "chain", "--epsilon", "1", "--json", *words]
        assert main(asked) == 0
        return [table["std"] for table in json.loads(capsys.readouterr().out)["tables"]]

    plain = stds("--total", "no")
    assert plain[0] == plain[1]
    assert stds("--total", "yes")[0] > plain[0]
    weighted = stds("--total", "no", "--weights", str(tmp_path / "weights.json"))
    assert weighted[0] < plain[0] < weighted[1]


def test_plan_shows_the_one_way_tables_that_gaussian_noise_measures_too(tmp_path, capsys):
    (tmp_path / "domain.json").write_text('{"a": 2, "b": 6, "c": 2, "d": 2, "e": 9}')
    asked = ["plan", str(tmp_path / "domain.json"), "--structure", "chain", "--epsilon", "1", "--json"]

    def stds(*words):
        assert main([*asked, "--total", "no", *words]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["parameters"] == sum(table["cells"] for table in shown["tables"])
        return {tuple(table["cliques"][0]): table["std"] for table in shown["tables"]}

    gaussian = ("--noise", "gaussian", "--delta", "1e-6")
    found = stds(*gaussian)
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    assert list(found) == [*pairs, ("a",), ("e",)]  # the others are told by few cells
    assert found["a",] == pytest.approx(3 * found["a", "b"])
    assert main([*asked[:-1], *gaussian]) == 0
    lines = capsys.readouterr().out.splitlines()
    added = "these attributes are also measured by themselves: 'a', 'e', unless you say --weights equal"
    assert f"           cliques  6; {added}" in lines
    assert "    log-potentials  57" in lines
    assert main([*asked[:-1], *gaussian, "--weights", "equal"]) == 0
    assert "           cliques  4\n" in capsys.readouterr().out
    alone = stds(*gaussian, "--weights", "equal")
    assert list(alone) == list(stds()) == pairs
    assert found["a", "b"] == pytest.approx(alone["a", "b"] * (1 + 1 / 18) ** 0.5)  # two tables of a ninth of the cost


def test_plan_refuses_what_a_release_of_chosen_tables_refuses(tmp_path, capsys):
    qf.Schema({"age": qf.Cuts([18, 65]), "sex": ["f", "m"]}).save(tmp_path / "schema.json")
    (tmp_path / "rows.csv").write_text("age,sex\n")
    paid = ["--epsilon", "1", "--unit", "rows:1", "--no-ledger", "--dry-run"]
    for words in (["--total", "yes"], ["--weights", "equal"]):
        chosen = ["--structure", "auto", *words]
        assert main(["release", str(tmp_path / "rows.csv"), "--schema", str(tmp_path / "schema.json"), *chosen, *paid])
        refused = capsys.readouterr()
        assert "total and weights are for given tables" in refused.err
        assert main(["plan", str(tmp_path / "schema.json"), *chosen]) == 1
        assert capsys.readouterr() == refused
    assert main(["plan", str(tmp_path / "schema.json"), "--structure", "auto", "--weights", "absent.json"]) == 1
    assert capsys.readouterr() == refused


def test_help_lists_options_in_groups(capsys):
    assert main(["plan", "--help"]) == 0
    shown = capsys.readouterr().out
    group = shown.partition("With --rehearse:")[2]
    assert "--error" in group
    assert "\n  --structure" not in group
