"""Experiment: what to run on which losses, and what is claimed, as a TOML file says it.

A file of its own for each experiment; its name is the experiment's id. ::

    title = "Routing"
    trials = 500
    seed = 0
    data = "latencies.csv"          # beside this file; or {name = "stocks"}, one of umab.datasets
    policies = ["umab-nn", "umab-g-a:rate=4", "ahb", "uniform"]
    claims = ["umab-nn < ahb"]      # on the final expected regret

Further keys: ``about`` (a paragraph), ``figure`` and ``claim`` (where a publication shows it, and what that says of
it), ``extra`` (a list of policies that are drawn but in no claim, or ``"scale-free"`` for all that are), ``parameters``
(a table of parameters by policy: ``umab-g-a = "rate=4"``), and ``note``. A file can say more: ``data = {file =
"sales.csv", reward = true, drop = ["date"]}``. To run the same experiment on several data or with several constants,
put what differs into tables ``[settings.NAME]``; what they leave out is taken from above.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from umab import checks, datasets
from umab.algorithms.registry import policies as registered
from umab.algorithms.registry import policy as policy_of
from umab.engine.simulate import takes
from umab.experiments.claims import Claim
from umab.losses import Losses

Role = Literal["main", "extra"]

_OF_SETTINGS = ("data", "policies", "parameters", "extra", "claims", "note")
_OF_EXPERIMENTS = ("title", "about", "figure", "claim", "trials", "seed", "settings", *_OF_SETTINGS)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to run an experiment: the losses, the policies with their parameters, and the claims."""

    name: str
    data: Mapping[str, Any]
    policies: Mapping[str, str]
    """The policies by the name under which they are shown, each as `umab.policy` takes it."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The parameters that the setting gives to policies, by their name."""
    extra: tuple[str, ...] | Literal["scale-free"] = ()
    claims: tuple[Claim, ...] = ()
    note: str = ""

    def losses(self, real: bool | None = None, seed: int | None = None) -> Losses:
        """Return the losses; `real` is that of `umab.datasets.load`, and `seed` that of a data set that is drawn."""
        parameters = dict(self.data)
        if "file" in parameters:
            return Losses.read(parameters.pop("file"), **parameters)
        name = parameters.pop("name")
        if seed is not None and datasets.takes(name, "seed"):
            parameters["seed"] = seed
        return datasets.load(name, real=real, **parameters)

    def curves(self, losses: Losses) -> dict[str, tuple[str, Role]]:
        """Return all that is drawn, by name: the policy as `umab.policy` takes it, and its role."""
        drawn: dict[str, tuple[str, Role]] = {name: (text, "main") for name, text in self.policies.items()}
        extra: Iterable[str] = self.extra
        if self.extra == "scale-free":
            extra = (name for name in _taking(losses) if policy_of(name).scale_free)
        drawn |= {text: (text, "extra") for text in extra if text not in drawn}
        return drawn


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment with its settings; see the text of this module for the file."""

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
        """Return the experiment of a TOML file."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no experiment at {str(path)!r}")
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls.of(path.stem, content, folder=path.parent)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError, TypeError) as error:
            raise ValueError(f"in {str(path)!r}: {error}") from None

    @classmethod
    def of(cls, id: str, content: Mapping[str, Any], *, folder: Path = Path()) -> Experiment:
        """Return the experiment that a file with this content describes; paths in it start from `folder`."""
        _refuse_unknown(content, _OF_EXPERIMENTS)
        shared = {key: content[key] for key in _OF_SETTINGS if key in content}
        settings = content.get("settings", {"main": {}})
        if not isinstance(settings, Mapping) or not settings:
            raise TypeError("settings must be tables [settings.NAME], but there is none")
        words = {key: _text(key, content[key]) for key in ("about", "figure", "claim") if key in content}
        return cls(
            id=id,
            title=_text("title", content.get("title", id)),
            n_trials=checks.whole("trials", content.get("trials", 500), least=1),
            seed=checks.whole("seed", content.get("seed", 0), least=0),
            settings=tuple(_setting(name, shared, own, folder) for name, own in settings.items()),
            **words,
        )

    def with_settings(self, names: Iterable[str]) -> Experiment:
        """Return this experiment with only the settings of these names."""
        return replace(self, settings=tuple(each for each in self.settings if each.name in set(names)))

    def with_policies(self, texts: Iterable[str]) -> Experiment:
        """Return this experiment with other policies; claims about those that are gone go too.

        A policy that is given without parameters has those of the setting, if this has some for it.
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


def comparison(id: str, losses: Losses, texts: Iterable[str] | None = None) -> Experiment:
    """Return the experiment that runs all policies on a table of losses, or those of `texts`.

    Left out are those that must know a range, and those that are for study. The two forms of UMAB-G run with the
    learning rate of the paper's figures too.
    """
    if texts is None:
        bandits = [name for name in _taking(losses) if not policy_of(name).full_information]
        faster = [f"{name}:rate=4" for name in ("umab-g", "umab-g-a") if name in bandits]
        extra = tuple(name for name in _taking(losses) if policy_of(name).full_information)
        policies = _policies(bandits + faster, {})
    else:
        policies, extra = _policies(list(texts), {}), ()
    setting = Setting(name="main", data={"file": losses.source}, policies=policies, extra=extra)
    return Experiment(id=id, title=id, settings=(setting,))


def _with_policies(setting: Setting, texts: list[str]) -> Setting:
    policies = _policies(texts, {name: value for name, value in setting.parameters.items() if name in texts})
    claims = tuple(claim for claim in setting.claims if set(claim) <= policies.keys())
    return replace(setting, policies=policies, extra=(), claims=claims)


def _setting(name: str, shared: Mapping[str, Any], own: Any, folder: Path) -> Setting:
    if not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"the name of a setting must be of letters, digits, - and _, but got {name!r}")
    if not isinstance(own, Mapping):
        raise TypeError(f"setting {name!r} must be a table, [settings.{name}], but got {own!r}")
    _refuse_unknown(own, _OF_SETTINGS, where=f" in setting {name!r}")
    content = {**shared, **own}
    for needed in ("data", "policies"):
        if needed not in content:
            raise ValueError(f"an experiment must say its {needed}, but setting {name!r} has none")
    policies = _policies(content["policies"], content.get("parameters", {}))
    extra = content.get("extra", [])
    if extra != "scale-free":
        if not isinstance(extra, list):
            raise TypeError(f"extra must be a list of policies, or 'scale-free', but got {extra!r}")
        extra = tuple(_policies(extra, {})) if extra else ()
    claims = tuple(Claim.of(_text("claims", text)) for text in _list("claims", content.get("claims", [])))
    for claim in claims:
        for side in claim:
            if side not in policies:
                raise ValueError(f"the claim '{claim}' is about {side!r}, which is not among the policies")
    return Setting(
        name=name,
        data=_data(content["data"], folder),
        policies=policies,
        parameters=content.get("parameters", {}),
        extra=extra,
        claims=claims,
        note=_text("note", content.get("note", "")),
    )


def _data(data: Any, folder: Path) -> dict[str, Any]:
    """Return what `Setting.losses` needs: the name of a data set with its parameters, or a file and how to read it."""
    if isinstance(data, str):
        return {"file": str(folder / data)}
    if isinstance(data, Mapping) and isinstance(data.get("name"), str):
        datasets.check(**data)
        return dict(data)
    if not isinstance(data, Mapping) or not isinstance(data.get("file"), str):
        raise TypeError(
            "data must be the path of a file, or a table like {name = 'stocks'} or {file = 'losses.csv'}, "
            f"but got {data!r}"
        )
    _refuse_unknown(data, ("file", "reward", "drop", "suspicious"), where=" in data")
    if not isinstance(data.get("reward", False), bool):
        raise TypeError(f"reward must be true or false, but got {data['reward']!r}")
    drop = [_text("drop", name) for name in _list("drop", data.get("drop", []))]
    checks.one_of("suspicious", data.get("suspicious", "refuse"), ("refuse", "allow"))
    return {**data, "file": str(folder / data["file"]), "drop": drop}


def _policies(texts: Any, parameters: Any) -> dict[str, str]:
    """Return policies by the name under which they are shown; both sides are checked."""
    if not isinstance(parameters, Mapping):
        raise TypeError(f"parameters must be a table of texts by policy, but got {parameters!r}")
    named: dict[str, str] = {}
    if not _list("policies", texts):
        raise ValueError("there must be a policy to run, but the list of policies is empty")
    for text in texts:
        name = _text("policies", text)
        if name in named:
            raise ValueError(f"policies must differ, but {name!r} is there twice")
        named[name] = f"{name}:{parameters[name]}" if name in parameters else name
        policy_of(named[name])  # refuses what is not one
    for name in parameters:
        if name not in named:
            raise ValueError(f"parameters are given for {name!r}, which is not among the policies")
    return named


def _taking(losses: Losses) -> list[str]:
    """Return the names of the policies that take these losses without having been told a range."""
    return [
        name
        for name, policy in ((name, policy_of(name)) for name in registered())
        if not policy.for_study and not policy.needs_range and takes(policy, losses)
    ]


def _refuse_unknown(content: Mapping[str, Any], known: tuple[str, ...], where: str = "") -> None:
    for key in content:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
            raise ValueError(f"there is no key {key!r}{where}{hint}")


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key} must be text, but got {value!r}")
    return value


def _list(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{key} must be a list, but got {value!r}")
    return value
