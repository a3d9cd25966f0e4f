"""Settings of every test, and which of them `make test` leaves to `make test-more`."""

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

# One thread: the tensors are small, and results then do not depend on the machine's core count.
torch.set_num_threads(1)

# A first call into torch or pandas may take a second on a busy machine; that is no failure.
# Examples are the same in every run, so that a failure is that of a change; others are drawn with
# --hypothesis-profile search.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("same")

# What compiles, starts processes, or combines features: `make test-more`. `make test` keeps what a
# change breaks first: exact losses, keys, doors, a run and an exact resume of each recipe, signals.
MORE = (
    *("analysis/test_report", "cli/test_video_export", "cli/test_wheel", "data/replay/test_memmap"),
    *("data/workers", "docs/test_pages", "objectives/test_bandits", "test_extending"),
    *("recipes/test_action_spaces", "recipes/test_clone", "recipes/test_copied_recipe"),
    *("recipes/test_images", "recipes/test_memory", "recipes/test_network_builder"),
    *("recipes/test_sweep", "recipes/test_torchrl_environments", "recipes/test_vector_rewards"),
    *("recipes/test_workers", "reliability/test_caches", "reliability/test_damage"),
    *("reliability/test_kill", "reliability/test_output", "reliability/test_paths"),
    *("reliability/test_prior_data", "reliability/test_ranks", "reliability/test_readers"),
    *("reliability/test_resources", "reliability/test_two_runs", "runs/test_acting"),
    *("runs/test_export", "runs/test_masked_policies", "runs/test_other_tasks"),
    *("runs/test_seeds", "runs/test_train", "updates/test_compiled", "updates/test_ranks"),
    *("updates/test_torch_compile",),
)


@pytest.fixture(scope="session", autouse=True)
def _no_figures() -> Iterator[None]:
    """Runs in this process draw none at their end; those of processes do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlkit_sac.runs.log.plot_learning_curves", lambda *data, **options: None)
        yield


def _is_more(path: Path) -> bool:
    return path.as_posix().removeprefix(f"{Path(__file__).parent.as_posix()}/").startswith(MORE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which `make test` or `make test-more` would run nothing."""
    wanted = {"not slow and not more": False, "more and not slow": True}.get(config.option.markexpr)
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and wanted is (not _is_more(collection_path)) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # doctests of the package may be among them
        if _is_more(item.path):
            item.add_marker("more")
