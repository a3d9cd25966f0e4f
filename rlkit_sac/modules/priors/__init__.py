"""Priors: policies that the learned policy is regularized towards."""
