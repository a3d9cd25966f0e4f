"""Settings of every test."""

import hypothesis
import torch

# One thread: the tensors are small, and results then do not depend on the machine's core count.
torch.set_num_threads(1)

# A first call into torch or pandas may take a second on a busy machine; that is no failure.
hypothesis.settings.register_profile("no_deadline", deadline=None)
hypothesis.settings.load_profile("no_deadline")
