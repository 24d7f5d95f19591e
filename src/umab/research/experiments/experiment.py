"""Experiment: what to run on which losses, and what is claimed, written as a TOML file.

Each experiment has its own file, whose name is the experiment's id. ::

    title = "Routing"
    trials = 500
    seed = 0
    data = "latencies.csv"          # beside this file; or {name = "stocks"}, one of umab.datasets
    policies = ["umab-nn", "umab-g-a:rate=4", "ahb", "uniform"]
    claims = ["umab-nn < ahb"]      # on the final expected regret

Further keys: ``about`` (a paragraph), ``figure`` and ``claim`` (where a publication shows the experiment, and what it
says about it), ``extra`` (a list of policies that run too but are in no claim, or ``"scale-free"`` for all that are
scale-free; figures do not draw them until they are switched on), ``parameters`` (a table of parameters by policy:
``umab-g-a = "rate=4"``), and ``note``. A file of losses can have options: ``data = {file = "sales.csv", reward = true,
drop = ["date"]}``, and ``missing = "away"`` if an empty cell means that the arm was not there in this round,
``missing = "drop"`` to leave out the round, or ``missing = 30`` to put a number in its place. To run the same
experiment on several data or with several constants, put what differs into tables ``[settings.NAME]``; keys that are
not there are taken from the top of the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from umab._support import checks
from umab.algorithms.base import Policy
from umab.algorithms.names import policy_as_written as policy_of
from umab.algorithms.registry import records, registered
from umab.engine.simulate import takes
from umab.research.experiments import reading
from umab.research.experiments.claims import Claim
from umab.research.experiments.reading import as_list, as_text, data_of, losses_of, refuse_unknown
from umab.tables.losses import Losses

_DRAWN = 6
"""How many policies figures draw if nobody has said which, beside the recommended one and choosing at random."""

_OF_SETTINGS = ("data", "policies", "parameters", "extra", "claims", "note")
_OF_EXPERIMENTS = ("title", "about", "figure", "claim", "trials", "seed", "settings", *_OF_SETTINGS)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to run an experiment: the losses, the policies with their parameters, and the claims."""

    name: str
    data: Mapping[str, object]
    policies: Mapping[str, str | Policy]
    """The policies by the name under which they are shown, each in the form that `umab.policy` reads, or as such."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The parameters that the setting gives to policies, by the name of the policy."""
    extra: tuple[str, ...] | Literal["scale-free"] = ()
    n_drawn: int | None = None
    """How many of the policies figures draw, the best ones; None for all."""
    claims: tuple[Claim, ...] = ()
    note: str = ""

    def losses(self, real: bool | None = None, seed: int | None = None) -> Losses:
        """Return the losses; `real` as for `umab.datasets.load`, and `seed` for a data set that is drawn at random."""
        return losses_of(self.data, real, seed)

    def curves(self, losses: Losses) -> dict[str, Policy]:
        """Return all policies to run, by name."""
        given = {name: each if isinstance(each, Policy) else policy_of(each) for name, each in self.policies.items()}
        extra: Iterable[str] = self.extra
        if self.extra == "scale-free":
            extra = (name for name, policy in _taking(losses).items() if policy.scale_free)
        return given | {text: policy_of(text) for text in extra if text not in given}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment with its settings; the docstring of this module describes the file."""

    id: str
    title: str
    about: str = ""
    figure: str = ""
    claim: str = ""
    n_trials: int = 500
    seed: int = 0
    settings: tuple[Setting, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> Experiment:
        """Return the experiment in a TOML file."""
        return reading.read(path, lambda id, content, folder: cls.of(id, content, folder=folder))

    @classmethod
    def of(cls, id: str, content: Mapping[str, object], *, folder: Path = Path()) -> Experiment:
        """Return the experiment that a file with this content describes; paths in it are relative to `folder`."""
        refuse_unknown(content, _OF_EXPERIMENTS)
        shared = {key: content[key] for key in _OF_SETTINGS if key in content}
        settings = content.get("settings", {"main": {}})
        if not isinstance(settings, Mapping) or not settings:
            raise TypeError(f"settings must be tables [settings.NAME], at least one, but got {settings!r}")
        words = {key: as_text(key, content[key]) for key in ("about", "figure", "claim") if key in content}
        return cls(
            id=id,
            title=as_text("title", content.get("title", id)),
            n_trials=checks.whole("trials", content.get("trials", 500), least=1),
            seed=checks.whole("seed", content.get("seed", 0), least=0),
            settings=tuple(_setting(name, shared, own, folder) for name, own in settings.items()),
            **words,
        )

    def with_settings(self, names: Iterable[str]) -> Experiment:
        """Return this experiment with only these settings."""
        return replace(self, settings=tuple(each for each in self.settings if each.name in set(names)))

    def with_policies(self, texts: Iterable[str]) -> Experiment:
        """Return this experiment with other policies, and without the claims about policies that are gone.

        A policy given without parameters has the setting's parameters, if the setting has any for it.
        """
        return replace(self, settings=tuple(_with_policies(each, list(texts)) for each in self.settings))


def paper() -> dict[str, Experiment]:
    """Return the experiments of Chen and Zhang by id, in the order of their figures."""
    folder = resources.files(__package__) / "paper"
    found = {}
    for file in folder.iterdir():
        if file.name.endswith(".toml"):
            id = file.name.removesuffix(".toml")
            found[id] = Experiment.of(id, tomllib.loads(file.read_text(encoding="utf-8")))
    return dict(sorted(found.items(), key=lambda item: item[1].figure))


def comparison(id: str, losses: Losses, given: Iterable[Policy | str] | None = None) -> Experiment:
    """Return the experiment that runs all policies on a loss table, or those that are given, by their names or as such.

    All policies means those that need no range, without those that are for study only. A policy also runs with the
    other parameters with which it is compared: UMAB-G with the learning rate of the paper's figures. Figures draw the
    best of them; those that are given they draw all.
    """
    if given is None:
        taking, about = _taking(losses), records()
        bandits = {name: policy for name, policy in taking.items() if not policy.full_information}
        others = [
            policy.with_parameters(**values).name
            for name, policy in bandits.items()
            for values in about[name].also_compared
        ]
        extra = tuple(name for name in taking if name not in bandits)
        policies, n_drawn = _policies(list(dict.fromkeys([*bandits, *others])), {}), _DRAWN
    else:
        policies, extra, n_drawn = _policies(list(given), {}), (), None
    setting = Setting(name="main", data={"file": losses.source}, policies=policies, extra=extra, n_drawn=n_drawn)
    return Experiment(id=id, title=id, settings=(setting,))


def _with_policies(setting: Setting, texts: list[str]) -> Setting:
    policies = _policies(texts, {name: value for name, value in setting.parameters.items() if name in texts})
    claims = tuple(claim for claim in setting.claims if set(claim) <= policies.keys())
    return replace(setting, policies=policies, extra=(), claims=claims)


def _setting(name: str, shared: Mapping[str, object], own: object, folder: Path) -> Setting:
    if not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"the name of a setting must consist of letters, digits, - and _, but got {name!r}")
    if not isinstance(own, Mapping):
        raise TypeError(f"setting {name!r} must be a table, [settings.{name}], but got {own!r}")
    refuse_unknown(own, _OF_SETTINGS, where=f" in setting {name!r}")
    content = {**shared, **own}
    for needed in ("data", "policies"):
        if needed not in content:
            raise ValueError(f"an experiment must have a key {needed!r}, but setting {name!r} has none")
    policies = _policies(content["policies"], content.get("parameters", {}))
    extra = content.get("extra", [])
    if extra != "scale-free":
        if not isinstance(extra, list):
            raise TypeError(f"extra must be a list of policies or 'scale-free', but got {extra!r}")
        extra = tuple(_policies(extra, {})) if extra else ()
    claims = tuple(Claim.of(as_text("claims", text)) for text in as_list("claims", content.get("claims", [])))
    for claim in claims:
        for side in claim:
            if side not in policies:
                raise ValueError(f"claims must be about policies of the experiment, but '{claim}' is about {side!r}")
    return Setting(
        name=name,
        data=data_of(content["data"], folder),
        policies=policies,
        parameters=content.get("parameters", {}),
        extra=extra,
        claims=claims,
        note=as_text("note", content.get("note", "")),
    )


def _policies(texts: Any, parameters: object) -> dict[str, str | Policy]:
    """Return policies by the name under which they are shown; policies and parameters are checked."""
    if not isinstance(parameters, Mapping):
        raise TypeError(f"parameters must be a table with a text for each policy, but got {parameters!r}")
    named: dict[str, str | Policy] = {}
    if not as_list("policies", texts):
        raise ValueError("there must be at least one policy to run, but got policies=[]")
    for text in texts:
        name = text.name if isinstance(text, Policy) else as_text("policies", text)
        if name in named:
            raise ValueError(f"policies must differ, but got {name!r} twice")
        if isinstance(text, Policy):
            named[name] = text
            continue
        written = f"{name}:{parameters[name]}" if name in parameters else name
        policy_of(written)  # refuses an unknown name
        named[name] = written
    for name in parameters:
        if name not in named:
            raise ValueError(f"parameters must be for policies of the experiment, but got some for {name!r}")
    return named


def _taking(losses: Losses) -> dict[str, Policy]:
    """Return the policies that accept these losses without being told a range, by name."""
    return {
        name: policy
        for name, policy in registered().items()
        if not policy.for_study and not policy.needs_range and takes(policy, losses)
    }
