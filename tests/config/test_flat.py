import json
from dataclasses import dataclass, field

from rlkit_sac.config.flat import flat_config


@dataclass
class Section:
    at: dict[int, list[float]] = field(default_factory=lambda: {50: [1.0], 100: [2.0]})


@dataclass
class Config:
    section: Section = field(default_factory=Section)
    resume: str | None = "runs"


def test_the_options_survive_json():
    flat = flat_config(Config())
    assert flat == {"section.at": {"50": [1.0], "100": [2.0]}}
    # Checksums are made before a file is written and after it is read: both sort the same names.
    assert json.dumps(json.loads(json.dumps(flat)), sort_keys=True) == json.dumps(
        flat, sort_keys=True
    )
