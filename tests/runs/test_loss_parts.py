"""What a run gives its loss besides networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlkit_sac.config import PriorConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.loss_parts import check_prior_source


def test_a_prior_whose_file_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "policy.json").mkdir()
    (check,) = check_prior_source(PriorConfig(kind="policy", run=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"policy\.json cannot be read: "):
        check.run()
