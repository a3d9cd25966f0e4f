"""Options with which each loss is compared with the formulas."""

from typing import Any

COMMON: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one critic": {"critics": 1},
    "four critics": {"critics": 4},
    "gamma": {"gamma": 0.5},
    "l1": {"loss_function": "l1"},
    "smooth l1": {"loss_function": "smooth_l1"},
    "half mean squared error": {"qvalue_coef": 0.5},
    "reward scale": {"reward_scale": 0.1},
    "alpha": {"alpha_init": 0.2},
    "fixed alpha": {"alpha_init": 0.2, "fixed_alpha": True},
    "alpha below its bound": {"alpha_init": 0.01, "min_alpha": 0.3},
    "alpha above its bound": {"alpha_init": 7.0, "max_alpha": 0.7},
    "exp alpha": {"alpha_init": 0.2, "alpha_parametrization": "exp"},
    "direct alpha": {"alpha_init": 0.2, "alpha_parametrization": "direct"},
    "target entropy": {"target_entropy": 0.7},
    "min_prob": {"min_prob": 0.4},
    "no entropy reward": {"use_entropy_reward": False},
    "policy losses on s and s'": {"policy_loss_steps": "all"},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "three rewards": {"rewards": 3},
    "signed reward weights": {"rewards": 3, "reward_weights": [0.5, -2.0, 0.0]},
    "mask": {"mask": True},
    "importance weights": {"weights": True},
    "mask and importance weights": {"mask": True, "weights": True},
    "no vmap": {"deactivate_vmap": True},
    "1 to 3 steps": {"batch": (12,), "rewards": 2, "mask": True, "several_steps": True},
    "1 to 3 steps, sequences": {"batch": (3, 5), "gamma": 0.5, "several_steps": True},
    "sequences": {"batch": (3, 5)},
    "lambda": {"batch": (3, 5), "lmbda": 0.6},
    "lambda one": {"batch": (4, 3), "lmbda": 1.0},
    "lambda, masked": {"batch": (3, 6), "lmbda": 0.8, "mask": True},
}

SEQUENCES: dict[str, Any] = {
    "batch": (3, 5),
    "rewards": 2,
    "reward_weights": [1.0, -0.3],
    "lmbda": 0.9,
    "mask": True,
    "weights": True,
    "policy_loss_steps": "all",
}

BOXES: dict[str, dict[str, Any]] = {
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "negative dimension": {"target_entropy": "neg_dim"},
    "clipped action gradient": {"dqda_clipping": 0.05},
    "bounds": {"low": [-2.0, 0.1], "high": [0.5, 0.3]},
    "vector rewards on sequences": {**SEQUENCES, "dqda_clipping": 0.02, "critics": 3},
}

CONTINUOUS: dict[str, dict[str, Any]] = {
    "target entropy of the spec": {"target_entropy": lambda spec: 0.5 * spec.shape[-1]},
    "direct alpha with everything": {
        "alpha_init": 0.4,
        "alpha_parametrization": "direct",
        "min_alpha": 0.1,
        "max_alpha": 2.0,
        "policy_loss_steps": "all",
        "dqda_clipping": 0.1,
        "reward_scale": 3.0,
        "loss_function": "smooth_l1",
        "qvalue_coef": 0.5,
        "low": [-3.0, -1.0],
        "high": [1.0, 2.0],
        "weights": True,
    },
    "no entropy reward on sequences": {
        "batch": (2, 4),
        "lmbda": 0.5,
        "use_entropy_reward": False,
        "rewards": 2,
        "alpha_parametrization": "exp",
        "alpha_init": 0.3,
        "policy_loss_steps": "all",
    },
}

DISCRETE: dict[str, dict[str, Any]] = {
    "two actions": {"actions": 2},
    "one action": {"actions": 1},
    "sampled entropy": {"discrete_entropy": "sampled", "alpha_init": 0.4},
    "policy losses on s and s', sampled": {
        "policy_loss_steps": "all",
        "discrete_entropy": "sampled",
    },
    "lambda one, sampled": {"batch": (4, 3), "lmbda": 1.0, "discrete_entropy": "sampled"},
    "everything": {
        **SEQUENCES,
        "critics": 3,
        "discrete_entropy": "sampled",
        "alpha_init": 0.3,
        "alpha_parametrization": "direct",
        "reward_scale": 2.0,
        "loss_function": "smooth_l1",
    },
}

MASK = [[1, 0], [0, 1], [0, 0]]

MASKED: dict[str, Any] = {
    "parameter_mask": MASK,
    "alpha_init": (0.2, 0.4),
    "policy_loss_steps": "all",
    "dqda_clipping": 0.05,
    "batch": (3, 4),
    "lmbda": 0.7,
    "discrete_entropy": "sampled",
}

HYBRID: dict[str, dict[str, Any]] = {
    "pair of alphas": {"alpha_init": (0.2, 0.9)},
    "pair of bounds": {"min_alpha": (None, 2.0), "max_alpha": [0.5, None]},
    "pair of modes": {"alpha_parametrization": ("exp", "direct"), "alpha_init": 0.3},
    "only the discrete alpha fixed": {"fixed_alpha": (True, False), "alpha_init": 0.4},
    "only the continuous alpha fixed": {"fixed_alpha": (False, True), "alpha_init": 0.4},
    "pair of target entropies": {"target_entropy": ("scaled_log_k", "neg_dim")},
    "clipped action gradient": {"dqda_clipping": 0.02},
    "clipped, weighted": {
        "dqda_clipping": 0.02,
        "rewards": 2,
        "reward_weights": [1.0, -3.0],
        "weights": True,
    },
    "masked parameters": {"parameter_mask": MASK, "alpha_init": 0.3},
    "masked parameters, all options": MASKED,
}

#: By the kind of loss.
OPTIONS = {
    "continuous": COMMON | BOXES | CONTINUOUS,
    "value": COMMON | BOXES,
    "boltzmann": COMMON | DISCRETE,
    "categorical": COMMON | DISCRETE,
    "hybrid": COMMON | DISCRETE | HYBRID,
}

PRIORS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "fixed alpha": {"alpha_init": 0.2, "fixed_alpha": True},
    "direct alpha": {"alpha_init": 0.2, "alpha_parametrization": "direct"},
    "no entropy reward": {"use_entropy_reward": False},
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "signed reward weights": {"rewards": 3, "reward_weights": [0.5, -2.0, 0.0]},
}

BOX_PRIORS: dict[str, dict[str, Any]] = PRIORS | {
    "target": {"target_kld_per_dim": 0.7, "alpha_init": 0.3},
    "bounds": {"low": [-2.0, 0.1], "high": [0.5, 0.3]},
    "clipped action gradient": {"dqda_clipping": 0.05},
    "sequences with everything": {**SEQUENCES, "dqda_clipping": 0.02, "target_kld_per_dim": 0.2},
}

DISCRETE_PRIORS: dict[str, dict[str, Any]] = PRIORS | {
    "targets": {"target_kld_discrete": 0.3, "alpha_init": 0.4},
    "one action": {"actions": 1},
    "sampled": {"discrete_entropy": "sampled", "alpha_init": 0.5},
    "sequences with everything": {
        **SEQUENCES,
        "alpha_init": 0.3,
        "alpha_parametrization": "exp",
    },
}

HYBRID_PRIORS: dict[str, dict[str, Any]] = {
    "targets of both": {"target_kld_per_dim": 0.7, "target_kld_discrete": 0.1},
    "clipped action gradient": {"dqda_clipping": 0.02, "alpha_init": (0.2, 0.6)},
    "masked parameters": {"parameter_mask": MASK, "alpha_init": 0.3},
    "masked parameters, all options": {**MASKED, "target_kld_per_dim": 0.4},
}

#: The same with a prior.
PRIOR_OPTIONS = {
    "continuous": BOX_PRIORS,
    "value": BOX_PRIORS,
    "boltzmann": DISCRETE_PRIORS,
    "categorical": DISCRETE_PRIORS,
    "hybrid": DISCRETE_PRIORS | HYBRID_PRIORS,
}
