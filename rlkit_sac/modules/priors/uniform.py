"""The uniform prior."""

from __future__ import annotations

import math

from tensordict import NestedKey, TensorDictBase
from torch.distributions import Categorical, Distribution
from torchrl.data import TensorSpec

from rlkit_sac.modules.priors.distributions import BoxUniform
from rlkit_sac.modules.priors.parts import Box, Index, PartwisePrior


class UniformPrior(PartwisePrior):
    r"""The uniform distribution over actions.

    Its log-density is :math:`-\sum_d\log(\text{high}_d-\text{low}_d)`, or :math:`-\log K`. The
    divergence from it is minus the entropy, up to this constant. The density is finite on the
    closed box, whose bounds a saturated tanh reaches exactly.

    Args:
        action_spec: of one action: a box ``[D]``, a categorical one, or both in a composite spec
            for hybrid actions.

    Raises:
        ConfigError: for another spec or bounds that are not finite.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> from torchrl.data import Bounded
    >>> prior = UniformPrior(Bounded(-2.0, 2.0, (1,)))
    >>> prior.get_dist(TensorDict(batch_size=[2])).log_prob(torch.tensor([[0.0], [2.0]]))
    tensor([-1.3863, -1.3863])
    """

    def __init__(self, action_spec: TensorSpec) -> None:
        super().__init__(action_spec)
        self.in_keys: list[NestedKey] = []

    def largest_kld(self, num_actions: int) -> float:
        r"""The largest divergence of a policy over K actions, :math:`\log K` nats.

        Args:
            num_actions: K.
        """
        return math.log(num_actions)

    def _box(self, name: str, box: Box, states: TensorDictBase) -> Distribution:
        return BoxUniform(box.low, box.high, states.batch_size)

    def _index(self, name: str, index: Index, states: TensorDictBase) -> Distribution:
        logits = index.alike.expand(*states.batch_size, -1)
        return Categorical(logits=logits, validate_args=False)
