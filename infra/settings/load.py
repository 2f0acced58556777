"""Settings of one environment: base.yaml, over it the environment's YAML file, over it overrides.

Mappings are merged key by key, lists are replaced.

Reads the file that it is told to, no environment. An override is `path.to.key=value`; several are divided by `;` or
line ends; a value is YAML, so `[a, b]`, `true`, `3` and `null` are what they look like.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from eagle3.config.embedded import EMBEDDED
from eagle3.config.validation import first_error
from eagle3.errors import ConfigError
from infra.settings.root import Settings

ENVIRONMENTS = Path(__file__).parents[1] / "environments"


def load_settings(environment: str, overrides: str = "") -> Settings:
    """Settings of an environment: a name (a file of infra/environments) or the path of a YAML file."""
    path = _file(environment)
    values = _merged(_read(ENVIRONMENTS / "base.yaml"), _read(path), source=str(path))
    changes = parse_overrides(overrides)
    for key, value in changes.items():
        _put(values, key, value)
    _drop_foreign_drafts(values)
    names = {key: f"override {key}" for key in changes}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(first_error(error, Settings, source=str(path), names=names)) from error


def parse_overrides(text: str) -> dict[str, Any]:
    """Overrides as a mapping of dotted keys to values, in their order."""
    found: dict[str, Any] = {}
    for item in text.replace(";", "\n").splitlines():
        if not item.strip():
            continue
        key, sign, value = item.partition("=")
        if not sign or not all(part.isidentifier() or part.isdigit() for part in key.strip().split(".")):
            raise ConfigError(f"an override is path.to.key=value; got {item.strip()!r}; divide several by ';'")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigError(f"override {key.strip()}: {value!r} is no YAML value: {error}") from error
    return found


def _file(environment: str) -> Path:
    path = ENVIRONMENTS / f"{environment}.yaml"
    if path.is_file():
        return path
    if environment.endswith((".yaml", ".yml")) and Path(environment).is_file():
        return Path(environment)
    known = ", ".join(sorted(entry.stem for entry in ENVIRONMENTS.glob("*.yaml") if entry.stem != "base"))
    raise ConfigError(
        f"no environment {environment!r}: EAGLE3KIT_ENVIRONMENT is one of {known}, or the path of a YAML file"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold a mapping of settings; got {type(values).__name__}")
    return values


def _merged(below: dict[str, Any], above: dict[str, Any], *, source: str) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        if isinstance(result.get(key), dict):
            if not isinstance(value, dict):
                raise ConfigError(f"{source}: {key} is a section with keys of its own; got {value!r}")
            result[key] = _merged(result[key], value, source=source)
        else:
            result[key] = value
    return result


def _drop_foreign_drafts(values: dict[str, Any]) -> None:
    """The embedded draft fits the embedded target only: a target of one's own has the draft that is named, or none."""
    for section in values.values():
        deployment = section.get("deployment") if isinstance(section, dict) else None
        if isinstance(deployment, dict) and deployment.get("target", EMBEDDED) != EMBEDDED:
            deployment.setdefault("draft", None)


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; numbers count items of a list."""
    *above, last = key.split(".")
    place: Any = values
    for part in above:
        place = _step(place, part, key)
    if isinstance(place, list):
        place[_index(place, last, key)] = value
    elif isinstance(place, Mapping):
        place[last] = value  # type: ignore[index]
    else:
        raise ConfigError(f"override {key}: {place!r} has no keys below it")


def _step(place: Any, part: str, key: str) -> Any:
    if isinstance(place, list):
        return place[_index(place, part, key)]
    if isinstance(place, dict):
        if place.get(part) is None:
            place[part] = {}
        return place[part]
    raise ConfigError(f"override {key}: {place!r} has no keys below it")


def _index(items: list[Any], part: str, key: str) -> int:
    if not part.isdigit() or int(part) >= len(items):
        raise ConfigError(f"override {key}: the list has items 0 to {len(items) - 1} in the file; got {part!r}")
    return int(part)
