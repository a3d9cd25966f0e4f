"""The loss of actor-critic with experience replay."""
