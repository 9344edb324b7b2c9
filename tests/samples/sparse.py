"""Samples of operations on the buffers of sparse arrays."""

import numpy as np

from tests.samples import Sample, fixed, normal
from weft.experimental.sparse import bcoo_buffers, bcsr, linalg, rows, transform
from weft.experimental.sparse.base import SparseInfo
from weft.tree.functions import tree_structure

# Places in a matrix of shape (3, 4), the last row of them padding.
PLACES = fixed([[0, 1], [2, 0], [2, 3], [3, 4]], np.int32)
ROWS, COLS = fixed([0, 2, 2, 3], np.int32), fixed([1, 0, 3, 4], np.int32)
STARTS = fixed([0, 1, 1, 3], np.int32)
INFO = SparseInfo((3, 4))
NUMBERS = (((1,), (0,)), ((), ()))
DENSE = lambda rng: rng.standard_normal((3, 4)) * (np.arange(12).reshape(3, 4) % 3 == 0)
SQUARE = lambda rng: np.array([2.0, 1.0, 3.0]) + 0.1 * rng.standard_normal(3)
SQUARE_PLACES = [fixed([0, 0, 1], np.int32), fixed([0, 1, 3], np.int32)]
COUNT = {"nse": 5, "index_dtype": np.dtype(np.int32)}
STEPS = "which elements are zero is not differentiable"


def sample(operation, args, params, **options):
    options = {"tol": 32, "wrt": (0,), **options}
    return Sample(
        f"{operation.name}_plain",
        operation.name,
        args,
        fun=lambda *xs: operation.call(*xs, **params),
        **options,
    )


def product(operation, places, other, **params):
    args = [normal(4), *places, normal(*other)]
    last = len(args) - 1
    return sample(operation, args, params, wrt=(0, last), linear=((0,), (last,)))


def found(operation, **params):
    notes = {"notes": STEPS, "differentiable": False}
    return sample(operation, [DENSE], params, **notes)


spinfo = {"spinfo": INFO}
coo = {"spinfo": rows.COOInfo((3, 4)), "transpose": False}
csr = {"shape": (3, 4), "transpose": True}
dot = {"dimension_numbers": NUMBERS, "preferred_element_type": None, "lhs_spinfo": INFO}
pair = {
    "dimension_numbers": NUMBERS,
    "preferred_element_type": None,
    "lhs_spinfo": INFO,
    "rhs_spinfo": SparseInfo((4, 3)),
}
TURNED = fixed([[1, 0], [0, 2], [3, 1], [4, 3]], np.int32)
ELEMENTS = [normal(4), PLACES]
BY_COORDINATES, BY_ROWS = [ROWS, COLS], [COLS, STARTS]
b, o = bcoo_buffers, rows

SAMPLES = [
    sample(b.bcoo_todense_p, ELEMENTS, spinfo, linear=((0,),)),
    found(b.bcoo_fromdense_p, **COUNT, n_batch=0, n_dense=0),
    sample(b.bcoo_extract_p, [PLACES, normal(3, 4)], {"assume_unique": False}, wrt=(1,),
           linear=((1,),)),
    sample(b.bcoo_transpose_p, ELEMENTS, {**spinfo, "permutation": (1, 0)}),
    sample(b.bcoo_sort_indices_p, ELEMENTS, spinfo),
    sample(b.bcoo_sum_duplicates_p, ELEMENTS, {**spinfo, "nse": 3}),
    product(b.bcoo_dot_general_p, [PLACES], (4, 2), **dot),
    sample(b.bcoo_dot_general_sampled_p, [normal(3, 2), normal(2, 4), PLACES],
           {"dimension_numbers": NUMBERS}, wrt=(0, 1), linear=((0,), (1,))),
    sample(b.bcoo_spdot_general_p, [normal(4), PLACES, normal(4), TURNED], pair, wrt=(0, 2)),
    found(bcsr.bcsr_fromdense_p, **COUNT, n_batch=0, n_dense=0),
    sample(bcsr.bcsr_todense_p, [normal(4), *BY_ROWS], spinfo, linear=((0,),)),
    sample(bcsr.bcsr_extract_p, [*BY_ROWS, normal(3, 4)], {}, wrt=(2,), linear=((2,),)),
    product(bcsr.bcsr_dot_general_p, BY_ROWS, (4, 2), **dot),
    found(o.coo_fromdense_p, **COUNT),
    sample(o.coo_todense_p, [normal(4), *BY_COORDINATES], {"spinfo": coo["spinfo"]},
           linear=((0,),)),
    product(o.coo_matvec_p, BY_COORDINATES, (4,), **coo),
    product(o.coo_matmat_p, BY_COORDINATES, (4, 2), **coo),
    found(o.csr_fromdense_p, **COUNT),
    sample(o.csr_todense_p, [normal(4), *BY_ROWS], {"shape": (3, 4)}, linear=((0,),)),
    product(o.csr_matvec_p, BY_ROWS, (3,), **csr),
    product(o.csr_matmat_p, BY_ROWS, (3, 2), **csr),
    sample(linalg.spsolve_p, [SQUARE, *SQUARE_PLACES, normal(2)], {"tol": 1e-6, "reorder": 1},
           wrt=(0, 3)),
    sample(transform.todense_p, [normal(3, 4)], {"tree": tree_structure(0)}, linear=((0,),)),
]  # fmt: skip
