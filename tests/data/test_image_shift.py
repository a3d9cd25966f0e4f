"""Random shifts of images against crops of padded ones."""

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn import functional as F

from rlkit_sac.data import random_shift

PIXELS = 2
ENTRIES: dict[str, dict[str, Any]] = {
    "gray": {"shape": [5, 7], "channels": "first"},
    "planes": {"shape": [3, 5, 7], "channels": "first"},
    "color": {"shape": [5, 7, 3], "channels": "last"},
    "frames": {"shape": [4, 5, 7, 3], "channels": "last"},
    "gray frames": {"shape": [4, 5, 7], "channels": "first"},
}
LAYOUT = [{"key": key, "scale": 255, **entry} for key, entry in ENTRIES.items()]
LAYOUT.append({"key": "observation", "shape": [2]})
SIDE = 2 * PIXELS + 1


def make_batch(*batch: int) -> TensorDict:
    def observed() -> TensorDict:
        images = {
            key: torch.randint(256, (*batch, *entry["shape"]), dtype=torch.uint8)
            for key, entry in ENTRIES.items()
        }
        return TensorDict({**images, "observation": torch.randn(*batch, 2)}, batch_size=batch)

    return observed().update({"next": observed(), "action": torch.randn(*batch, 1)})


def crops(image: Tensor, key: str) -> list[Tensor]:
    """All that a shift may make of one image."""
    is_last = ENTRIES[key]["channels"] == "last"
    planes = image.movedim(-1, -3) if is_last else image
    flat = planes.reshape(1, -1, 5, 7).double()
    padded = F.pad(flat, (PIXELS,) * 4, mode="replicate").to(image.dtype)
    found = [
        padded[..., row : row + 5, column : column + 7].reshape(planes.shape)
        for row in range(SIDE)
        for column in range(SIDE)
    ]
    return [each.movedim(-3, -1) if is_last else each for each in found]


def offset(image: Tensor, shifted: Tensor, key: str) -> int:
    """Which of the crops a shifted image is."""
    assert shifted.dtype == image.dtype
    (place,) = [place for place, crop in enumerate(crops(image, key)) if torch.equal(crop, shifted)]
    return place


@pytest.mark.parametrize("key", ENTRIES)
def test_each_sample_and_its_next_state_have_a_shift_of_their_own(key: str) -> None:
    torch.manual_seed(0)
    batch = make_batch(300)
    before = batch.clone()
    shifted = random_shift(batch, LAYOUT, PIXELS)
    places = []
    for where in (key, ("next", key)):
        pairs = zip(batch[where], shifted[where], strict=True)
        places.append([offset(image, moved, key) for image, moved in pairs])
        assert set(places[-1]) == set(range(SIDE**2))
    assert places[0] != places[1]
    assert (batch == before).all()
    for unchanged in ("observation", "action", ("next", "observation")):
        assert torch.equal(shifted[unchanged], batch[unchanged])


@pytest.mark.parametrize("key", ENTRIES)
def test_the_steps_of_a_slice_are_shifted_alike(key: str) -> None:
    torch.manual_seed(0)
    batch = make_batch(6, 4)
    shifted = random_shift(batch, LAYOUT, PIXELS)[key]
    places = [
        {offset(image, moved, key) for image, moved in zip(row, moved_row, strict=True)}
        for row, moved_row in zip(batch[key], shifted, strict=True)
    ]
    assert [len(each) for each in places] == [1] * 6
    assert len(set.union(*places)) > 1


def test_the_generator_decides() -> None:
    batch = make_batch(8)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(random_shift(batch, LAYOUT, PIXELS)["color"])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_bools_stay_bools_and_no_pixels_are_no_shift() -> None:
    batch = make_batch(8)
    assert random_shift(batch, LAYOUT, 0) is batch
    batch["gray"] = batch["next", "gray"] = batch["gray"] > 127
    assert random_shift(batch, LAYOUT, PIXELS)["gray"].dtype == torch.bool
