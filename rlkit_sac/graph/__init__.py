"""Recording the tensor operations of a function as one graph, and compiling it."""

from rlkit_sac.graph.compiler import compile_graph
from rlkit_sac.graph.cuda_graph import CUDAGraphFunction, on_a_gpu
from rlkit_sac.graph.fingerprint import Fingerprint, Held
from rlkit_sac.graph.flat_graph import FlatGraph
from rlkit_sac.graph.matmul_precision import (
    MatmulPrecision,
    onednn_is_exact,
    round_matmuls,
    set_matmul_precision,
)
from rlkit_sac.graph.preserve_state import preserve_state
from rlkit_sac.graph.random_inputs import RandomInputs, lift_random_inputs
from rlkit_sac.graph.record import NotRecordable, Recording, record

__all__ = [
    "CUDAGraphFunction",
    "Fingerprint",
    "FlatGraph",
    "Held",
    "MatmulPrecision",
    "NotRecordable",
    "RandomInputs",
    "Recording",
    "compile_graph",
    "lift_random_inputs",
    "on_a_gpu",
    "onednn_is_exact",
    "preserve_state",
    "record",
    "round_matmuls",
    "set_matmul_precision",
]
