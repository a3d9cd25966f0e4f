"""Recording what a function does to tensors as one graph, and compiling it."""

from rlkit_sac.capture.compiler import compile_graph
from rlkit_sac.capture.cuda_graph import CUDAGraphFunction, on_a_gpu
from rlkit_sac.capture.fingerprint import Fingerprint, Held
from rlkit_sac.capture.products import Products, matrix_products, onednn_is_exact, round_products
from rlkit_sac.capture.random_inputs import RandomInputs, lift_random_inputs
from rlkit_sac.capture.record import NotRecordable, Recording, record
from rlkit_sac.capture.straight_line import StraightLine
from rlkit_sac.capture.undone import undone

__all__ = [
    "CUDAGraphFunction",
    "Fingerprint",
    "Held",
    "NotRecordable",
    "Products",
    "RandomInputs",
    "Recording",
    "StraightLine",
    "compile_graph",
    "lift_random_inputs",
    "matrix_products",
    "on_a_gpu",
    "onednn_is_exact",
    "record",
    "round_products",
    "undone",
]
