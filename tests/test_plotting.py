"""Charts of results: one line in a notebook, or a file."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import umab
from umab.results.plotting import Chart, Curve, band, curve_chart

SVG = "{http://www.w3.org/2000/svg}"
LOSSES = np.random.default_rng(0).exponential([1.0, 2.0, 4.0], size=(400, 3))


@pytest.fixture(scope="module")
def results() -> list[umab.Result]:
    return umab.simulate(["umab-nn", "uniform"], LOSSES, n_trials=20, keep="summary")


def drawn(chart: Chart) -> dict[str, dict[str, Any]]:
    return {each["policy"]: each for each in chart.spec["data"]["values"]}


def test_a_chart_has_the_curves_and_bands(results: list[umab.Result]) -> None:
    chart = umab.plot(results)
    assert list(drawn(chart)) == ["uniform", "umab-nn"]  # what is named first is drawn last, on top
    assert chart.spec["encoding"]["color"]["scale"]["domain"] == ["umab-nn", "uniform"]
    for result in results:
        values = drawn(chart)[result.policy]
        assert values["t"][0] == 1 and values["t"][-1] == 400 and len(values["t"]) == 320
        at = np.array(values["t"]) - 1
        np.testing.assert_allclose(values["mean"], result.mean[at], rtol=1e-4)
        np.testing.assert_allclose(values["low"], (result.mean - result.sd)[at], rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(values["high"], (result.mean + result.sd)[at], rtol=1e-4)
    assert chart.spec["title"]["text"] == "mean expected regret of 20 trials, bands of one standard deviation"
    assert chart.spec["layer"][0]["encoding"]["y"]["title"] == "expected regret (pseudo-regret)"


@pytest.mark.parametrize("n_rounds", [1, 2, 3, 7, 50, 600, 1000, 1258, 1999, 3000, 12_345, 10**6, 30_000_000])
def test_every_tick_has_its_label(n_rounds: int) -> None:
    """No label is hidden for want of room, as 1,000 and 1,200 were beside 1,100."""
    mean = np.array([0.0, 5e3])
    values: list[Curve] = [{"policy": "ahb", "t": np.array([1, n_rounds]), "mean": mean, **band(mean, np.ones(2))}]
    drawing = ElementTree.fromstring(Chart(curve_chart(values, n_rounds, "A title")).svg)
    axes = [each for each in drawing.iter(f"{SVG}g") if "role-axis-label" in each.get("class", "")]
    assert len(axes) == 2
    for axis in axes:
        labels = list(axis.iter(f"{SVG}text"))
        assert {label.get("opacity") for label in labels} == {"1"} and len(labels) >= 2
    ends = []
    for label in axes[0].iter(f"{SVG}text"):
        assert label.get("text-anchor") == "middle" and label.text
        middle, half = float(label.get("transform", "")[len("translate(") :].split(",")[0]), 0.5 * 8.0 * len(label.text)
        ends += [middle - half, middle + half]
    assert ends == sorted(ends)
    if n_rounds == 1258:
        texts = [each.text for each in axes[0].iter(f"{SVG}text")]
        assert texts == ["0", "200", "400", "600", "800", "1,000", "1,200"]


def test_no_figure_of_the_documents_hides_a_label() -> None:
    figures = sorted((Path(__file__).parent.parent / "docs").rglob("*.svg"))
    assert len(figures) > 20
    for figure in figures:
        texts = ElementTree.parse(figure).getroot().iter(f"{SVG}text")
        assert [each.text for each in texts if each.get("opacity") == "0"] == [], figure.name


def test_a_result_draws_itself(results: list[umab.Result]) -> None:
    assert results[1].plot().spec == umab.plot(results[1]).spec == umab.plot([results[1]]).spec
    assert list(drawn(results[1].plot())) == ["uniform"]


def test_results_can_be_given_names(results: list[umab.Result]) -> None:
    chart = umab.plot({"early": results[1], "late": umab.simulate("uniform", LOSSES[:50], n_trials=1, expected=False)})
    assert set(drawn(chart)) == {"early", "late"} and len(drawn(chart)["late"]["t"]) == 50
    assert chart.spec["encoding"]["x"]["scale"]["domain"] == [0, 400]
    assert "mean expected and sampled regret of 1 or 20 trials" in chart.spec["title"]["text"]
    axis = chart.spec["layer"][0]["encoding"]["y"]["title"]
    assert axis == "expected regret (pseudo-regret) and sampled regret"


def test_what_cannot_be_drawn(results: list[umab.Result]) -> None:
    with pytest.raises(ValueError, match=r"'uniform' .*dict"):
        umab.plot([results[1], results[1]])
    with pytest.raises(ValueError, match="at least one result"):
        umab.plot([])


@pytest.mark.parametrize(("ending", "start"), [(".svg", b"<svg"), (".PNG", b"\x89PNG"), (".pdf", b"%PDF")])
def test_a_chart_is_saved_by_the_ending(tmp_path: Path, results: list[umab.Result], ending: str, start: bytes) -> None:
    results[0].plot().save(tmp_path / f"chart{ending}")
    assert (tmp_path / f"chart{ending}").read_bytes().startswith(start)


def test_other_endings_are_refused(tmp_path: Path, results: list[umab.Result]) -> None:
    for name in ("chart", "chart.gif"):
        with pytest.raises(ValueError, match=r"\.svg, \.png or \.pdf.*chart"):
            results[0].plot().save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_shows_a_chart(results: list[umab.Result]) -> None:
    chart = umab.plot(results)
    shown = chart._repr_svg_()
    texts = [each.text for each in ElementTree.fromstring(shown).iter("{http://www.w3.org/2000/svg}text")]
    assert "umab-nn" in texts and "uniform" in texts and "expected regret (pseudo-regret)" in texts
    assert repr(chart) == "Chart; a notebook shows it, and save('chart.svg') writes it to a file"


@pytest.mark.parametrize("scale", [1e-300, 1e306])
@pytest.mark.parametrize("n_trials", [1, 3])
def test_losses_of_any_size_can_be_drawn(scale: float, n_trials: int) -> None:
    table = scale * np.random.default_rng(0).normal(size=(50, 3))
    result = umab.simulate("uniform", table, n_trials=n_trials)
    assert "NaN" not in result.plot().svg and "nan" not in result._repr_html_()


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, results: list[umab.Result]) -> None:
    for name in ("vl_convert", "pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"needs vl_convert; run pip install 'umab\[report\]'"):
        _ = results[0].plot().svg
    with pytest.raises(ImportError, match=r"needs pandas; run pip install 'umab\[notebook\]'"):
        results[0].to_pandas()
    with pytest.raises(ImportError, match=r"needs polars; run pip install 'umab\[data\]'"):
        results[0].to_polars()
