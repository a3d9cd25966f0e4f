import pytest
import torch

from rlkit_sac.graph import onednn_is_exact, record, round_to_bf16, set_matmul_precision

if not hasattr(torch.backends.mkldnn, "matmul"):
    pytest.skip("PyTorch before 2.9 has no setting to test", allow_module_level=True)
SWITCH = torch.backends.mkldnn.matmul


@pytest.mark.parametrize("kind", ["auto", "exact", "bfloat16"])
@pytest.mark.parametrize("shape", [(2, 256, 256, 256), (3, 256, 23, 256), (1, 64, 300, 12)])
def test_products_have_the_precision_they_promise(kind: str, shape: tuple[int, ...]) -> None:
    batch, rows, inner, columns = shape
    a, b = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
    exact = a.double() @ b.double()
    with set_matmul_precision(kind):
        error = ((a @ b).double() - exact).norm() / exact.norm()
        double = a.double() @ b.double()
    assert error < 1e-6
    assert torch.equal(double, exact)


def test_the_choice_ends_with_the_block() -> None:
    before = SWITCH.fp32_precision
    with set_matmul_precision("exact"):
        assert SWITCH.fp32_precision == before
    with set_matmul_precision("auto"):
        assert SWITCH.fp32_precision == ("bf16" if onednn_is_exact() else before)
    assert SWITCH.fp32_precision == before


def test_factors_of_large_products_are_rounded_and_nothing_else() -> None:
    a, b, bias, narrow = (
        torch.randn(*shape) for shape in ((128, 256), (256, 160), (160,), (256, 101))
    )
    batched = torch.randn(2, 128, 256), torch.randn(2, 256, 128)

    def products() -> list[torch.Tensor]:
        return [a @ b, torch.addmm(bias, a, b), torch.bmm(*batched), a @ narrow]

    recording = record(products, [a, b, bias, narrow, *batched])
    wanted = products()
    round_to_bf16(recording.graph)
    *large, small = recording.graph(*recording.inputs)
    assert torch.equal(small, wanted[3])
    for found, exact in zip(large, wanted, strict=False):
        assert found.dtype == torch.float32
        error = ((found - exact).norm() / exact.norm()).item()
        assert 1e-4 < error < 1e-2  # eight bits of a factor
