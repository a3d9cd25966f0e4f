"""The regression target of the critics, TD(0) to TD(lambda)."""

from torch import Tensor, nn

from rlkit_sac.errors import ConfigError
from rlkit_sac.functional import soft_lambda_return, soft_td_target


class SoftValueEstimator(nn.Module):
    """Targets of soft state-action values, with the entropy at every intermediate step.

    TorchRL's own estimators know of no entropy bonus between the first step and the bootstrap, and
    read no mask; this one stands in their place in a soft actor-critic loss.

    Args:
        gamma: discount in [0, 1].
        lmbda: 0 for one-step targets, 1 for the full return of the sequence.

    Raises:
        ConfigError: for a value outside [0, 1].
    """

    def __init__(self, gamma: float, lmbda: float) -> None:
        super().__init__()
        for name, value in (("gamma", gamma), ("lmbda", lmbda)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} must be in [0, 1], not {value}")
        # Numbers, not buffers: exact in every dtype the loss is cast to.
        self.gamma, self.lmbda = float(gamma), float(lmbda)

    def forward(
        self,
        reward: Tensor,
        terminated: Tensor,
        cut: Tensor | None,
        next_value: Tensor,
        next_bonus: Tensor,
    ) -> Tensor:
        """Targets ``[*, M]``; arguments as in :func:`~rlkit_sac.functional.soft_lambda_return`.

        ``cut`` may be ``None`` where ``lmbda`` is 0.
        """
        if cut is None:
            return soft_td_target(reward, terminated, next_value, gamma=self.gamma)
        return soft_lambda_return(
            reward, terminated, cut, next_value, next_bonus, gamma=self.gamma, lmbda=self.lmbda
        )
