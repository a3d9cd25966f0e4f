"""Random numbers of a joint batch, of which each rank takes those of its own rows."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: Rows of a rank's share: a prime, so that no other dimension is a multiple of it.
ROWS = 13


class JointNoise(TorchDispatchMode):
    """In the block every random operation draws for all ranks, and returns one rank's share.

    The first dimension that is a multiple of ``ROWS`` is that of the rows. Indices are drawn by
    inversion, since ``multinomial`` would draw other numbers for other probabilities.

    Args:
        rank: whose share; ``None`` for all rows, as one process has them.
        ranks: of the joint batch.
    """

    def __init__(self, rank: int | None = None, ranks: int = 2) -> None:
        super().__init__()
        self.rank, self.ranks = rank, ranks

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name == "multinomial":
            uniform = self.share(args[0].new_empty(args[0].shape[:-1]), torch.Tensor.uniform_)
            chosen = args[0].double().cumsum(-1) < uniform.unsqueeze(-1) * args[0].sum(-1, True)
            return chosen.sum(-1, keepdim=True).clamp(max=args[0].shape[-1] - 1)
        if name in ("normal_", "uniform_", "exponential_", "bernoulli_"):
            drawn = self.share(args[0], lambda joint: func(joint, *args[1:], **kwargs))
            return args[0].copy_(drawn)
        if name.endswith("_like"):
            blank = torch.empty(args[0].shape, dtype=args[0].dtype)
            return self.share(blank, lambda joint: func(joint, *args[1:], **kwargs))
        if name in ("randn", "rand"):
            kind = kwargs.get("dtype") or torch.get_default_dtype()
            blank = torch.empty(args[0], dtype=kind)
            return self.share(blank, lambda joint: func(joint.shape, *args[1:], **kwargs))
        assert name == "randperm", name  # of critics, which ranks may not draw by themselves
        assert kwargs.get("generator") is not None
        return func(*args, **kwargs)

    def share(self, blank: torch.Tensor, draw: Any) -> torch.Tensor:
        rows = [dim for dim, size in enumerate(blank.shape) if size and size % ROWS == 0]
        if self.rank is None or not rows:
            return draw(torch.empty(blank.shape, dtype=blank.dtype))
        shape = list(blank.shape)
        shape[rows[0]] *= self.ranks
        return draw(torch.empty(shape, dtype=blank.dtype)).chunk(self.ranks, rows[0])[self.rank]
