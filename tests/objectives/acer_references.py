"""ACER from its formulas: loops over steps, and PyTorch's automatic differentiation.

Nothing of the package is used here. Each segment of an episode goes backwards in time by itself.
"""

import math
from dataclasses import dataclass

import torch
from tensordict import TensorDict
from torch import Tensor

from tests.objectives.acer_networks import Networks


@dataclass
class AcerOptions:
    """Options of a loss; ``space`` is None without a trust region."""

    space: str | None = None
    c: float | None = 10.0
    on_policy: bool = False
    use_q_opc: bool = False
    delta: float = 1.0
    gamma: float = 0.99
    beta: float = 0.01
    policy_coef: float = 1.0
    critic_coef: float = 0.5

    def of_loss(self) -> dict:
        """The keyword arguments of the loss."""
        return {
            "use_trust_region": self.space is not None,
            "trust_region_space": self.space,
            "truncation_threshold": self.c,
            "on_policy": self.on_policy,
            "use_q_opc": self.use_q_opc,
            "trust_region_delta": self.delta,
            "gamma": self.gamma,
            "beta": self.beta,
            "policy_coef": self.policy_coef,
            "critic_coef": self.critic_coef,
        }


@dataclass
class Reference:
    """Losses over all valid steps, divided by their number, and their gradients."""

    policy: Tensor
    critic: Tensor
    entropy_loss: Tensor
    entropy: Tensor
    kl: Tensor
    value: Tensor
    actor_gradient: list[Tensor]
    entropy_gradient: list[Tensor]
    critic_gradient: list[Tensor]

    def assert_equal(self, out: TensorDict, actor: list[Tensor], critic: list[Tensor], **tolerance):
        """Compare with the outputs of a loss and their gradients for its own parameters."""
        for name, value in {
            "loss_actor": self.policy,
            "loss_critic": self.critic,
            "loss_entropy": self.entropy_loss,
            "entropy": self.entropy,
            "kl": self.kl,
            "value": self.value,
        }.items():
            torch.testing.assert_close(out[name], value, **tolerance, msg=f"{name}: {{}}".format)
        for name, group, gradients in (
            ("loss_actor", actor, self.actor_gradient),
            ("loss_entropy", actor, self.entropy_gradient),
            ("loss_critic", critic, self.critic_gradient),
        ):
            options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
            found = list(torch.autograd.grad(out[name], group, **options))
            torch.testing.assert_close(found, gradients, **tolerance, msg=f"{name}: {{}}".format)


class Step:
    """One step: everything but the returns."""

    def __init__(self, kind: str, nets: Networks, step: TensorDict, noise, o: AcerOptions) -> None:
        self.o, self.kind, self.nets = o, kind, nets
        self.obs, self.action = step["observation"], step["action"]
        self.reward = step["next", "reward"][0]
        self.live = self.parameters(nets.actor(self.obs))
        self.average = [each.detach() for each in self.parameters(nets.average(self.obs))]
        self.now = [each.detach() for each in self.live]
        self.corrected = not o.on_policy and o.c is not None
        if not o.on_policy:
            names = ("logits",) if kind == "discrete" else ("loc", "scale")
            self.behavior = [step["behavior", name] for name in names]
        if kind == "discrete":
            self.values = nets.critic(self.obs)
            pi = self.now[0].softmax(0)
            self.v = sum(pi[i] * self.values[i].item() for i in range(len(pi)))
            self.q = self.values[self.action]
        else:
            self.v_net = nets.critic(self.obs)[0]
            self.v = self.v_net.detach()
            self.q = self.dueling(self.action, noise[0])
            if self.corrected:
                self.sampled = self.now[0] + self.now[1] * noise[1][0]
                self.q_sampled = self.dueling(self.sampled, noise[2]).detach()
        self.rho = 1.0 if o.on_policy else self.ratio(self.action)

    def parameters(self, out) -> list[Tensor]:
        return [out] if self.kind == "discrete" else list(out)

    def dueling(self, action: Tensor, noise: Tensor) -> Tensor:
        def advantage(a: Tensor) -> Tensor:
            return self.nets.advantage(torch.cat([self.obs, a]))[0]

        drawn = [self.now[0] + self.now[1] * each for each in noise]
        return self.v_net + advantage(action) - sum(map(advantage, drawn)) / len(drawn)

    def log_prob(self, parameters: list[Tensor], action: Tensor) -> Tensor:
        if self.kind == "discrete":
            return parameters[0].log_softmax(0)[action]
        loc, scale = parameters
        out = 0.0
        for d in range(len(loc)):
            error = (action[d] - loc[d]) / scale[d]
            out = out - error**2 / 2 - scale[d].log() - math.log(2 * math.pi) / 2
        return out

    def ratio(self, action: Tensor) -> float:
        difference = self.log_prob(self.now, action) - self.log_prob(self.behavior, action)
        return math.exp(difference.item())

    def trace(self) -> float:
        dims = 1 if self.kind == "discrete" else len(self.action)
        return min(1.0, self.rho ** (1 / dims))

    def correction(self, action) -> float:
        return max(0.0, 1 - self.o.c / self.ratio(action))

    # ---------------------------------------------------------------- parameter spaces

    def in_space(self, parameters: list[Tensor]) -> list[Tensor]:
        """phi, from what the network puts out."""
        space = self.o.space
        if self.kind == "discrete":
            (logits,) = parameters
            change = {"log_probs": lambda x: x.log_softmax(0), "probs": lambda x: x.softmax(0)}
            return [change.get(space, lambda x: x)(logits)]
        loc, scale = parameters
        return [loc, scale**2 if space == "loc_var" else scale]

    def from_space(self, phi: list[Tensor]):
        """What a log-probability is a function of."""
        space = self.o.space
        if self.kind == "discrete":
            change = {"log_probs": lambda x: x, "probs": lambda x: x.log()}
            log_pi = change.get(space, lambda x: x.log_softmax(0))(phi[0])
            return lambda a: log_pi[a]
        scale = phi[1].sqrt() if space == "loc_var" else phi[1]
        return lambda a: self.log_prob([phi[0], scale], a)

    def policy_loss(self, log_prob, advantage: float) -> Tensor:
        """Without entropy."""
        if self.o.on_policy:
            return -advantage * log_prob(self.action)
        weight = self.rho if self.o.c is None else min(self.o.c, self.rho)
        loss = -weight * advantage * log_prob(self.action)
        if self.corrected and self.kind == "discrete":
            pi = self.now[0].softmax(0)
            for a in range(len(pi)):
                gain = self.values[a].item() - self.v
                loss = loss - self.correction(a) * pi[a] * gain * log_prob(a)
        elif self.corrected:
            gain = (self.q_sampled - self.v).item()
            loss = loss - self.correction(self.sampled) * gain * log_prob(self.sampled)
        return loss

    def kl(self, phi: list[Tensor]) -> Tensor:
        if self.kind == "discrete":
            before = self.average[0].log_softmax(0)
            log_prob = self.from_space(phi)
            return sum(before[a].exp() * (before[a] - log_prob(a)) for a in range(len(before)))
        loc, scale = phi[0], phi[1].sqrt() if self.o.space == "loc_var" else phi[1]
        from torch.distributions import Normal, kl_divergence

        return kl_divergence(Normal(*self.average), Normal(loc, scale)).sum()

    def surrogate(self, advantage: float) -> tuple[Tensor, Tensor]:
        """The policy loss, and what to differentiate in its place."""
        live = self.in_space(self.live)
        phi = [each.detach().requires_grad_() for each in live]
        loss = self.policy_loss(self.from_space(phi), advantage)
        if self.o.space is None:
            real = self.policy_loss(lambda a: self.log_prob(self.live, a), advantage)
            return loss.detach(), real
        g = torch.cat(torch.autograd.grad(loss, phi))
        k = torch.cat(torch.autograd.grad(-self.kl(phi), phi))
        square = (k @ k).item()
        if square > 0:
            g = g - max(0.0, ((k @ g).item() - self.o.delta) / square) * k
        return loss.detach(), torch.cat(live) @ g

    def entropy(self) -> Tensor:
        if self.kind == "discrete":
            log_pi = self.live[0].log_softmax(0)
            return -sum(each.exp() * each for each in log_pi)
        return sum(each.log() + 0.5 * math.log(2 * math.pi * math.e) for each in self.live[1])


def state_value(kind: str, nets: Networks, obs: Tensor) -> float:
    if kind == "continuous":
        return nets.critic(obs).item()
    return (nets.actor(obs).softmax(0) @ nets.critic(obs)).item()


def episodes(segments: TensorDict) -> list[tuple[int, list[int]]]:
    """Rows and steps of all that goes on without a cut."""
    found = []
    for row in range(len(segments)):
        current: list[int] = []
        for t in range(segments.shape[1]):
            if not segments.get(("collector", "mask"), torch.ones(segments.shape))[row, t]:
                break
            current.append(t)
            if segments["next", "done"][row, t]:
                found.append((row, current))
                current = []
        if current:
            found.append((row, current))
    return found


def reference(
    kind: str, nets: Networks, segments: TensorDict, noise: list[Tensor], o: AcerOptions
) -> Reference:
    """Everything of a batch ``[B, T]``."""
    policy, critic, entropy_loss, surrogates, kls, entropies, values = ([] for _ in range(7))
    for row, steps in episodes(segments):
        last = segments[row, steps[-1]]
        start = 0.0
        if not last["next", "terminated"]:
            start = state_value(kind, nets, last["next", "observation"])
        q_ret = q_opc = start
        for t in reversed(steps):
            step = Step(kind, nets, segments[row, t], [each[:, row, t] for each in noise], o)
            q_ret = step.reward.item() + o.gamma * q_ret
            q_opc = step.reward.item() + o.gamma * q_opc
            v, q = float(step.v), step.q.item()
            loss, surrogate = step.surrogate((q_opc if o.use_q_opc else q_ret) - v)
            policy.append(o.policy_coef * loss)
            surrogates.append(o.policy_coef * surrogate)
            entropy_loss.append(-o.policy_coef * o.beta * step.entropy())
            error = (q_ret - step.q) ** 2 / 2
            if kind == "continuous":
                target = min(1.0, step.rho) * (q_ret - q) + v
                error = error + (target - step.v_net) ** 2 / 2
            critic.append(o.critic_coef * error)
            kls.append(step.kl([each.detach() for each in step.in_space(step.live)]))
            entropies.append(step.entropy())
            values.append(torch.tensor(v, dtype=torch.float64))
            q_ret = step.trace() * (q_ret - q) + v
            q_opc = q_opc - q + v
    lists = (policy, critic, entropy_loss, surrogates, kls, entropies, values)
    means = [torch.stack(each).mean() for each in lists]
    actor, critics = nets.actor_parameters(), nets.critic_parameters()
    return Reference(
        policy=means[0],
        critic=means[1].detach(),
        entropy_loss=means[2].detach(),
        entropy=means[5].detach(),
        kl=means[4],
        value=means[6],
        actor_gradient=gradient(means[3], actor),
        entropy_gradient=gradient(means[2], actor),
        critic_gradient=gradient(means[1], critics),
    )


def gradient(loss: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, parameters, retain_graph=True))
