"""Trained policies as files, and loaded from them."""

from rlkit_sac.runs.policies.policy_files import load_policy, policy_files, save_policy

__all__ = ["load_policy", "policy_files", "save_policy"]
