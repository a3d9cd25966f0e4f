"""Recording the tensor operations of a function as one graph, and compiling it."""

from rlkit_sac.graph.compiler import CUDAGraphFunction as CUDAGraphFunction
from rlkit_sac.graph.compiler import any_on_gpu as any_on_gpu
from rlkit_sac.graph.compiler import compile_graph as compile_graph
from rlkit_sac.graph.fingerprint import Fingerprint as Fingerprint
from rlkit_sac.graph.fingerprint import Held as Held
from rlkit_sac.graph.flat_graph import FlatGraph as FlatGraph
from rlkit_sac.graph.matmul_precision import MatmulPrecision as MatmulPrecision
from rlkit_sac.graph.matmul_precision import has_fast_bfloat16 as has_fast_bfloat16
from rlkit_sac.graph.matmul_precision import onednn_is_exact as onednn_is_exact
from rlkit_sac.graph.matmul_precision import round_to_bf16 as round_to_bf16
from rlkit_sac.graph.matmul_precision import set_matmul_precision as set_matmul_precision
from rlkit_sac.graph.preserve_state import preserve_state as preserve_state
from rlkit_sac.graph.random_inputs import lift_random_inputs as lift_random_inputs
from rlkit_sac.graph.record import NotRecordable as NotRecordable
from rlkit_sac.graph.record import Recording as Recording
from rlkit_sac.graph.record import record as record

__all__ = [name for name, value in globals().items() if callable(value)]
