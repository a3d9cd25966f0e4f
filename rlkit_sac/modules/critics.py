"""State-action value networks."""

from collections.abc import Sequence

from tensordict.nn import TensorDictModule
from torchrl.modules import MLP

from rlkit_sac.modules.activations import activation_class


def state_action_critic(
    observation_dim: int,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    reward_dim: int = 1,
) -> TensorDictModule:
    """A multilayer perceptron Q(s, a).

    Reads ``observation`` ``[*, observation_dim]`` and ``action`` ``[*, action_dim]``; writes
    ``state_action_value`` ``[*, reward_dim]``.

    Args:
        observation_dim: length of the observation.
        action_dim: length of the action.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        reward_dim: number of reward dimensions, one value each.

    Raises:
        ConfigError: for an unknown activation.

    >>> import torch
    >>> from tensordict import TensorDict
    >>> critic = state_action_critic(3, 1)
    >>> data = TensorDict(observation=torch.zeros(5, 3), action=torch.zeros(5, 1), batch_size=[5])
    >>> critic(data)["state_action_value"].shape
    torch.Size([5, 1])
    """
    network = MLP(
        in_features=observation_dim + action_dim,
        out_features=reward_dim,
        num_cells=list(num_cells),
        activation_class=activation_class(activation),
    )
    return TensorDictModule(
        network, in_keys=["observation", "action"], out_keys=["state_action_value"]
    )
