"""Updates with a PyTorch in which a part that is not public is elsewhere run uncompiled."""

import sys

import pytest

from tests.updates.test_compiled import assert_same, batch_for, continuous, pair


@pytest.mark.parametrize(
    "module",
    [
        "torch._guards",
        "torch._inductor.compile_fx",
        "torch._subclasses",
        "torch.fx.experimental.proxy_tensor",
    ],
)
def test_without_an_import_updates_run_uncompiled(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    plain, compiled = pair(continuous)
    with pytest.warns(UserWarning, match=r"it cannot become one compiled graph .*run uncompiled"):
        assert_same(plain, compiled, [batch_for(plain.loss_module) for _ in range(2)])
