"""One update of each published system, from its equations, in plain float64 PyTorch.

Nothing of the package is used here: explicit networks of one hidden layer, explicit noise, Adam and
Polyak averaging by hand. Where a system's code does what its authors did not mean (prt-rl's actor
loss without gradient, time limits as ends), the equations count.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

Net = dict[str, Tensor]
Batch = dict[str, Tensor]


def mlp(net: Net, x: Tensor) -> Tensor:
    return torch.relu(x @ net["w1"].T + net["b1"]) @ net["w2"].T + net["b2"]


def q(net: Net, obs: Tensor, action: Tensor) -> Tensor:
    return mlp(net, torch.cat([obs, action], -1)).squeeze(-1)


def clipped(low: float, high: float) -> Callable[[Tensor], Tensor]:
    return lambda raw: raw.clamp(low, high)


def rescaled(low: float, high: float) -> Callable[[Tensor], Tensor]:
    return lambda raw: low + 0.5 * (high - low) * (torch.tanh(raw) + 1)


@dataclass
class Policy:
    """A squashed Gaussian on [-half, half]; the form of its mean and log standard deviation."""

    half: float
    log_std: Callable[[Tensor], Tensor]
    mean: Callable[[Tensor], Tensor] = lambda raw: raw

    def __call__(self, net: Net, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        raw_mean, raw_std = mlp(net, obs).chunk(2, -1)
        mean, log_std = self.mean(raw_mean), self.log_std(raw_std)
        u = mean + log_std.exp() * noise
        action = self.half * torch.tanh(u)
        normal = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
        return action, (normal - torch.log(self.half * (1 - torch.tanh(u) ** 2))).sum(-1)


@dataclass
class Adam:
    lr: float
    eps: float = 1e-8
    steps: int = 0
    first: list[Tensor] = field(default_factory=list)
    second: list[Tensor] = field(default_factory=list)

    def step(self, loss: Tensor, parameters: list[Tensor]) -> None:
        self.apply(torch.autograd.grad(loss, parameters), parameters)

    def apply(self, gradients: tuple[Tensor, ...], parameters: list[Tensor]) -> None:
        if not self.steps:
            self.first = [torch.zeros_like(p) for p in parameters]
            self.second = [torch.zeros_like(p) for p in parameters]
        self.steps += 1
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, self.first, self.second, strict=True):
                m.copy_(0.9 * m + 0.1 * g)
                v.copy_(0.999 * v + 0.001 * g**2)
                unbiased = v / (1 - 0.999**self.steps)
                p -= self.lr * (m / (1 - 0.9**self.steps)) / (unbiased.sqrt() + self.eps)


def polyak(target: Net, net: Net, tau: float) -> None:
    with torch.no_grad():
        for name, value in target.items():
            value.copy_((1 - tau) * value + tau * net[name])


@dataclass
class System:
    """Networks by name, the logarithm of the temperature, and what is drawn in each forward pass.

    ``noise`` yields the next forward pass's standard normal numbers: at s' and at s.
    """

    nets: dict[str, Net]
    log_alpha: Tensor
    noise: Iterator[tuple[Tensor, Tensor]]
    dims: int
    updates: int = 0
    gamma: float = 0.99
    tau: float = 0.005

    def __post_init__(self) -> None:
        """Each system makes its optimizers here."""

    def weights(self, *names: str) -> list[Tensor]:
        return [value for name in names for value in self.nets[name].values()]

    def smaller(self, obs: Tensor, action: Tensor, suffix: str = "") -> Tensor:
        values = [q(self.nets[name + suffix], obs, action) for name in ("q0", "q1")]
        return torch.minimum(*values)

    def target(self, d: Batch, policy: Policy, alpha: Tensor | float, noise: Tensor) -> Tensor:
        with torch.no_grad():
            action, log_prob = policy(self.nets["actor"], d["next_obs"], noise)
            v = self.smaller(d["next_obs"], action, "_target") - alpha * log_prob
            return d["reward"] + self.gamma * (1 - d["terminated"]) * v

    def errors(self, d: Batch, y: Tensor) -> Tensor:
        """Mean squared errors of both critics, added."""
        values = [q(self.nets[name], d["obs"], d["action"]) for name in ("q0", "q1")]
        return sum(((value - y) ** 2).mean() for value in values)

    def policy_loss(
        self, obs: Tensor, policy: Policy, alpha: Tensor | float, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The actor's loss and the log-probability of the action in it."""
        action, log_prob = policy(self.nets["actor"], obs, noise)
        return (alpha * log_prob - self.smaller(obs, action)).mean(), log_prob.detach()

    def move_targets(self) -> None:
        for name in ("q0", "q1"):
            polyak(self.nets[f"{name}_target"], self.nets[name], self.tau)


class ALF(System):
    """One loss for all parameters, the mean over the two steps of each sequence."""

    lr, eps, policy, locomotion = 5e-4, 1e-8, Policy(2.0, clipped(-20, 2)), False
    min_prob = 0.1

    def __post_init__(self) -> None:
        self.adams = [Adam(self.lr, self.eps) for _ in range(3)]

    def update(self, d: Batch) -> None:
        next_noise, noise = next(self.noise)
        alpha = self.log_alpha.detach().exp()
        wanted = self.dims * math.log(self.min_prob * 2 * self.policy.half)
        # The critic's loss counts on the first step, the policy's on both or on the second.
        critic_loss = 0.5 * self.errors(d, self.target(d, self.policy, alpha, next_noise))
        places = [(d["next_obs"], next_noise)]
        places += [] if self.locomotion else [(d["obs"], noise)]
        actor_losses, alpha_losses = [], []
        for obs, drawn in places:
            actor_loss, log_prob = self.policy_loss(obs, self.policy, alpha, drawn)
            actor_losses.append(0.5 * actor_loss)
            alpha_losses.append(0.5 * (self.log_alpha * (-log_prob - wanted)).mean())
        groups = self.weights("actor"), self.weights("q0", "q1"), [self.log_alpha]
        losses = sum(actor_losses), critic_loss, sum(alpha_losses)
        pairs = zip(losses, groups, strict=True)
        gradients = [torch.autograd.grad(loss, group) for loss, group in pairs]
        for adam, gradient, group in zip(self.adams, gradients, groups, strict=True):
            adam.apply(gradient, group)
        self.move_targets()


class ALFLocomotion(ALF):
    lr, eps, policy, locomotion = 3e-4, 1e-7, Policy(1.0, clipped(-10, 2)), True
    min_prob = 0.184


class SpinningUp(System):
    """Actor, critics with half the squared error, target; alpha is 0.2."""

    policy = Policy(1.0, clipped(-20, 2))

    def __post_init__(self) -> None:
        self.actor_adam, self.critic_adam = Adam(1e-3), Adam(1e-3)

    def update(self, d: Batch) -> None:
        _, noise = next(self.noise)
        self.actor_adam.step(
            self.policy_loss(d["obs"], self.policy, 0.2, noise)[0], self.weights("actor")
        )
        next_noise, _ = next(self.noise)
        y = self.target(d, self.policy, 0.2, next_noise)
        self.critic_adam.step(0.5 * self.errors(d, y), self.weights("q0", "q1"))
        self.move_targets()


class StableBaselines3(System):
    """Temperature, critics, actor: one sample at s, and alpha from before its step."""

    policy, half_error = Policy(1.0, clipped(-20, 2)), 0.5

    def __post_init__(self) -> None:
        self.alpha_adam, self.critic_adam, self.actor_adam = (Adam(3e-4) for _ in range(3))

    def update(self, d: Batch) -> None:
        (next_noise, _), (_, noise) = next(self.noise), next(self.noise)
        _, log_prob = self.policy(self.nets["actor"], d["obs"], noise)
        alpha = self.log_alpha.detach().exp()
        excess = (log_prob - self.dims).detach()  # the target entropy is -dim
        self.alpha_adam.step(-(self.log_alpha * excess).mean(), [self.log_alpha])
        y = self.target(d, self.policy, alpha, next_noise)
        self.critic_adam.step(self.half_error * self.errors(d, y), self.weights("q0", "q1"))
        actor_loss, _ = self.policy_loss(d["obs"], self.policy, alpha, noise)
        self.actor_adam.step(actor_loss, self.weights("actor"))
        self.move_targets()


class PrtRL(StableBaselines3):
    """The same with the whole squared error."""

    half_error = 1.0


class CleanRL(System):
    """Critics; at every second update two rounds of actor and temperature; target."""

    policy = Policy(2.0, rescaled(-5, 2))

    def __post_init__(self) -> None:
        self.actor_adam, self.critic_adam, self.alpha_adam = Adam(3e-4), Adam(1e-3), Adam(1e-3)

    def update(self, d: Batch) -> None:
        self.updates += 1
        next_noise, _ = next(self.noise)
        y = self.target(d, self.policy, self.log_alpha.detach().exp(), next_noise)
        self.critic_adam.step(self.errors(d, y), self.weights("q0", "q1"))
        if self.updates % 2 == 0:
            for _ in range(2):
                alpha = self.log_alpha.detach().exp()
                _, noise = next(self.noise)
                actor_loss, _ = self.policy_loss(d["obs"], self.policy, alpha, noise)
                self.actor_adam.step(actor_loss, self.weights("actor"))
                _, noise = next(self.noise)
                log_prob = self.policy(self.nets["actor"], d["obs"], noise)[1].detach()
                alpha_loss = (-self.log_alpha.exp() * (log_prob - self.dims)).mean()
                self.alpha_adam.step(alpha_loss, [self.log_alpha])
        self.move_targets()


class Notebook(System):
    """Temperature; then actor, target value network, critics, value network from one pass."""

    policy = Policy(1.0, rescaled(-20, 2), torch.tanh)

    def __post_init__(self) -> None:
        self.adams = {name: Adam(3e-4) for name in ("actor", "critics", "value", "alpha")}

    def update(self, d: Batch) -> None:
        self.updates += 1
        _, noise = next(self.noise)
        action, log_prob = self.policy(self.nets["actor"], d["obs"], noise)
        excess = (log_prob - self.dims).detach()
        self.adams["alpha"].step((-self.log_alpha.exp() * excess).mean(), [self.log_alpha])
        alpha = self.log_alpha.detach().exp()  # after its step
        next(self.noise)  # the same action again

        with torch.no_grad():
            next_v = mlp(self.nets["v_target"], d["next_obs"]).squeeze(-1)
            y = d["reward"] + self.gamma * (1 - d["terminated"]) * next_v
        v = mlp(self.nets["v"], d["obs"]).squeeze(-1)
        q_pi = self.smaller(d["obs"], action)
        v_loss = ((v - (q_pi - alpha * log_prob).detach()) ** 2).mean()
        actor_loss = (alpha * log_prob - (q_pi - v.detach())).mean()
        critics = self.weights("q0", "q1")
        of_critics = torch.autograd.grad(self.errors(d, y), critics)
        of_value = torch.autograd.grad(v_loss, self.weights("v"))
        if self.updates % 2 == 0:
            self.adams["actor"].step(actor_loss, self.weights("actor"))
            polyak(self.nets["v_target"], self.nets["v"], self.tau)
        self.adams["critics"].apply(of_critics, critics)
        self.adams["value"].apply(of_value, self.weights("v"))
