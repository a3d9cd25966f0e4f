"""Updates of a discrete loss with memory against those of ALF's ``SacAlgorithm``, written out.

With a recurrent Q network (``QNetwork`` after an RNN), discrete actions and one-step targets, ALF
runs critics and target critics over whole sequences from a zero state, without the previous action,
and takes each step's target from the next step of the sequence. The policy is the softmax of the
smallest critic; its entropy is minus the log-probability of one sampled action.
"""

from copy import deepcopy

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torchrl.objectives import SoftUpdate

from rlkit_sac.modules import GRUMemory
from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.networks import waiting_times

ROWS, STEPS, INPUTS, UNITS, ACTIONS = 5, 6, 3, 4, 3
GAMMA, TAU, LR, TARGET = 0.9, 0.05, 0.01, 0.5


class QNetwork(nn.Module):
    """ALF's, of PyTorch's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(INPUTS, UNITS, 2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(UNITS, 8), nn.ReLU(), nn.Linear(8, ACTIONS))

    def forward(self, observation: Tensor) -> Tensor:
        return self.head(self.rnn(observation)[0])


def sampled(probs: Tensor, waiting: Tensor) -> Tensor:
    """The log-probability of the action whose exponential clock rings first."""
    index = (probs / waiting).argmax(-1, keepdim=True)
    return probs.log().gather(-1, index).squeeze(-1)


def test_two_updates_are_alfs() -> None:
    torch.manual_seed(0)
    critics = [QNetwork().double() for _ in range(2)]
    observation = torch.randn(ROWS, STEPS + 1, INPUTS).double()
    action = torch.randint(ACTIONS, (ROWS, STEPS))
    reward = torch.randn(ROWS, STEPS).double()
    discount = torch.ones(ROWS, STEPS).double()
    discount[:3, -1] = 0.0  # three episodes end, two are interrupted
    clocks = torch.rand(2, 2, ROWS, STEPS, ACTIONS).double() + 0.1

    members = []
    for critic in critics:
        memory = GRUMemory(gru=deepcopy(critic.rnn), in_key="observation", out_key="memory")
        head = TensorDictModule(deepcopy(critic.head), ["memory"], ["action_value"])
        members.append(TensorDictSequential(memory, head))
    loss = DiscreteSACLoss(
        members, gamma=GAMMA, alpha_init=0.3, target_entropy=TARGET, discrete_entropy="sampled"
    )
    optimizer = torch.optim.Adam(loss.parameters(), lr=LR)
    targets = SoftUpdate(loss, tau=TAU)
    ends = (discount == 0).unsqueeze(-1)
    following = {"observation": observation[:, 1:], "reward": reward.unsqueeze(-1)}
    batch = TensorDict(
        observation=observation[:, :-1],
        action=action,
        is_init=torch.zeros(ROWS, STEPS, 1, dtype=torch.bool),
        next=following | {"terminated": ends, "done": ends},
        batch_size=[ROWS, STEPS],
    )

    target_critics = deepcopy(critics)
    log_alpha = nn.Parameter(torch.tensor(0.3, dtype=torch.float64).log())
    weights = [p for critic in critics for p in critic.parameters()]
    alfs = torch.optim.Adam([*weights, log_alpha], lr=LR)
    for next_clock, clock in clocks:
        with waiting_times([next_clock.clone(), clock.clone()]):
            out = loss(batch.clone())
        optimizer.zero_grad()
        (out["loss_qvalue"] + out["loss_alpha"]).backward()
        optimizer.step()
        targets.step()

        alpha = log_alpha.detach().exp()
        q = torch.stack([critic(observation) for critic in critics])
        probs = (q.detach().min(0).values / alpha).softmax(-1)
        with torch.no_grad():
            q_target = torch.stack([critic(observation) for critic in target_critics]).min(0).values
            entropy_reward = -alpha * sampled(probs[:, 1:], next_clock)
            value = (probs * q_target).sum(-1)[:, 1:]
            y = reward + GAMMA * discount * entropy_reward + GAMMA * discount * value
        of_taken = q[:, :, :-1].gather(-1, action.expand(2, -1, -1).unsqueeze(-1)).squeeze(-1)
        loss_qvalue = (of_taken - y).square().sum(0).mean()
        loss_alpha = (log_alpha * (-sampled(probs[:, :-1], clock) - TARGET)).mean()
        alfs.zero_grad()
        (loss_qvalue + loss_alpha).backward()
        alfs.step()
        with torch.no_grad():
            for critic, target in zip(critics, target_critics, strict=True):
                for p, t in zip(critic.parameters(), target.parameters(), strict=True):
                    t.lerp_(p, TAU)
        torch.testing.assert_close(out["loss_qvalue"], loss_qvalue, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(out["loss_alpha"], loss_alpha, rtol=1e-11, atol=1e-12)

    torch.testing.assert_close(loss.log_alpha, log_alpha, rtol=1e-10, atol=1e-10)
    for params, wanted in (
        (loss.qvalue_network_params, critics),
        (loss.target_qvalue_network_params, target_critics),
    ):
        for member, critic in enumerate(wanted):
            for part, own in ((("module", "0", "gru"), "rnn"), (("module", "1", "module"), "head")):
                found = params.get(part).flatten_keys(".")
                for name, value in getattr(critic, own).named_parameters():
                    torch.testing.assert_close(found[name][member], value, rtol=1e-8, atol=1e-9)
