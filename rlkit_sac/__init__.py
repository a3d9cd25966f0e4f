"""Soft actor-critic (SAC) for every kind of action, and ACER, as TorchRL components.

- `train`, which runs a recipe, and `Run`, a run on disk
- ``rlkit_sac.objectives``: the losses, which are attributes of this package too, such as
  ``rlkit_sac.ContinuousSACLoss``
- ``rlkit_sac.modules``: actors, critics, policies, priors, normalizers
- ``rlkit_sac.functional``: the equations, as functions of tensors
- ``rlkit_sac.envs``: from a Gymnasium id to a TorchRL environment
- ``rlkit_sac.data``: collectors and replay buffers
- ``rlkit_sac.updates``: a loss, optimizers and targets as one update
- ``rlkit_sac.graph``: recording and compiling tensor operations
- ``rlkit_sac.config``: options of recipes, YAML files, the command line
- ``rlkit_sac.runs``: run directories, checkpoints, evaluation, loading of trained policies
- ``rlkit_sac.analysis``: results as pandas tables and figures; imports no PyTorch
- ``rlkit_sac.errors``: the exceptions that the package raises

Each is imported at its first use, as in ``import rlkit_sac; rlkit_sac.analysis.load_runs``.
The command ``rlkit-sac``, or ``python -m rlkit_sac``, trains and evaluates; see its ``--help``.
"""

from __future__ import annotations

import importlib.util
import pkgutil
from typing import TYPE_CHECKING, Any

from rlkit_sac._version import __version__ as __version__

if TYPE_CHECKING:  # "as": these names are for the users of the package
    from rlkit_sac import analysis as analysis
    from rlkit_sac import config as config
    from rlkit_sac import data as data
    from rlkit_sac import envs as envs
    from rlkit_sac import errors as errors
    from rlkit_sac import functional as functional
    from rlkit_sac import graph as graph
    from rlkit_sac import modules as modules
    from rlkit_sac import objectives as objectives
    from rlkit_sac import runs as runs
    from rlkit_sac import updates as updates
    from rlkit_sac.objectives import ACERLoss as ACERLoss
    from rlkit_sac.objectives import ContinuousSACLoss as ContinuousSACLoss
    from rlkit_sac.objectives import DiscreteSACLoss as DiscreteSACLoss
    from rlkit_sac.objectives import HybridSACLoss as HybridSACLoss
    from rlkit_sac.objectives import ValueSACLoss as ValueSACLoss
    from rlkit_sac.runs.train import Run as Run
    from rlkit_sac.runs.train import train as train

_LOSSES = ("ACERLoss", "ContinuousSACLoss", "DiscreteSACLoss", "HybridSACLoss", "ValueSACLoss")
_MODULES = {"train": "runs.train", "Run": "runs.train", **dict.fromkeys(_LOSSES, "objectives")}

if not TYPE_CHECKING:  # mypy would take any name for one that __getattr__ gives

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        if importlib.util.find_spec(f"{__name__}.{name}") is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module(f"{__name__}.{name}")

    def __dir__() -> list[str]:
        return sorted(
            {*globals(), *_MODULES, *(module.name for module in pkgutil.iter_modules(__path__))}
        )
