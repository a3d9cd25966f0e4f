"""Settings of every test."""

import hypothesis
import torch

# One thread: the tensors are small, and results then do not depend on the machine's core count.
torch.set_num_threads(1)

# A first call into torch or pandas may take a second on a busy machine; that is no failure.
# Examples are the same in every run, so that a failure is that of a change; others are drawn with
# --hypothesis-profile search.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("same")
