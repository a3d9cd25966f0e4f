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

CONTINUOUS: dict[str, dict[str, Any]] = COMMON | {
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "negative dimension": {"target_entropy": "neg_dim"},
    "clipped action gradient": {"dqda_clipping": 0.05},
    "bounds": {"low": [-2.0, 0.1], "high": [0.5, 0.3]},
    "vector rewards on sequences": {**SEQUENCES, "dqda_clipping": 0.02, "critics": 3},
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

CONTINUOUS_PRIORS: dict[str, dict[str, Any]] = PRIORS | {
    "target": {"target_kld_per_dim": 0.7, "alpha_init": 0.3},
    "bounds": {"low": [-2.0, 0.1], "high": [0.5, 0.3]},
    "clipped action gradient": {"dqda_clipping": 0.05},
    "sequences with everything": {**SEQUENCES, "dqda_clipping": 0.02, "target_kld_per_dim": 0.2},
}
