"""Priors: policies towards which the learned policy is regularized."""
