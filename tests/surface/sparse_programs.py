"""Functions of sparse arrays, as they are and under modes that forbid mixing ranks and dtypes."""

SETUP = """
import itertools
d34 = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 4, 5, 0]], "float32")
d234 = np.stack([d34, d34[::-1] * 2])
def coo(x, **kw): return sparse.BCOO.fromdense(jnp.asarray(x), **kw)
def csr(x, **kw): return sparse.BCSR.fromdense(jnp.asarray(x), **kw)
x, y = coo(d34), coo(d34[::-1])
xb, xd, xbb = coo(d234, n_batch=1), coo(d234, n_dense=1), coo(d234, n_batch=2)
x3 = coo(d234)
xr, xrb = csr(d34), csr(d234, n_batch=1)
twice = sparse.BCOO((jnp.array([1., 2., 3.]), jnp.array([[0, 1], [0, 1], [2, 3]])), shape=(3, 4))
padded = coo(d34, nse=8)
v4, v3 = jnp.arange(4.0), jnp.arange(3.0)
s = sparse.sparsify
nums = lambda a, b, c=(), d=(): ((tuple(a), tuple(b)), (tuple(c), tuple(d)))
def rows(m): return m.data, m.indices
"""

# Each with all layouts that it takes.
_EACH = [
    "{m}.sum_duplicates()", "{m}.sum_duplicates(nse=9)", "{m}.sort_indices()", "{m}.todense()",
    "{m}.sum(0)", "{m}.sum(-1)", "{m}.sum()", "{m} * 2", "2.0 * {m}", "-{m}", "abs({m})",
    "{m} ** 2", "{m} / 2", "{m} + {m}", "{m} - {m}", "{m} * {m}", "{m}.astype('int32')",
    "{m}.astype('bfloat16')", "{m}.T", "{m}[0]", "{m}[1:]", "{m}[..., 1]", "{m}[..., ::2]",
    "{m} @ v4", "s(jnp.sin)({m})", "s(lambda a: jnp.sqrt(abs(a)))({m})", "s(jnp.cos)({m})",
    "s(lambda a: a.reshape(-1))({m})", "s(lambda a: a[None])({m})", "s(jnp.exp)({m})",
    "s(lambda a: jnp.expand_dims(a, 1))({m})", "s(lambda a: jnp.stack([a, a]))({m})",
    "s(lambda a: jnp.stack([a, 2 * a], axis=1))({m})", "s(lambda a: jnp.concatenate([a, a]))({m})",
    "s(lambda a: jnp.concatenate([a, a], 1))({m})", "s(lambda a: jnp.flip(a, 0))({m})",
    "s(lambda a: lax.cond(a.sum() > 0, lambda a: a, lambda a: -a, a))({m})",
    "s(lambda a: lax.cond(False, lambda a: a.T, lambda a: -a.T, a))({m})",
    "s(lambda a: lax.fori_loop(0, 3, lambda i, a: a * 2, a))({m})",
    "s(lambda a: lax.while_loop(lambda a: a.sum() < 99, lambda a: a * 2, a))({m})",
    "s(lambda a: lax.scan(lambda c, _: (c * 2, None), a, None, length=2)[0])({m})",
    "s(lambda a: lax.fori_loop(0, 2, lambda i, v: v + a @ v4, a @ v4))({m})",
    "s(lambda a: sparse.todense(a) + 1.0)({m})", "s(lambda a: sparse.todense(a * 2).sum())({m})",
    "s(lambda a: a + 1.0)({m})", "s(lambda a: a * v4)({m})", "s(lambda a: a / (v4 + 1))({m})",
    "s(lambda a: jnp.squeeze(a[:1], 0))({m})", "s(lambda a: a.astype(int))({m})",
    "s(lambda a: jax.jit(lambda a: a * 2)(a))({m})", "s(jax.nn.relu)({m})",
    "jax.jit(lambda a: a.sum_duplicates(nse=6))({m})", "jax.jit(s(lambda a: a * 3))({m})",
    "sparse.todense({m})", "sparse.todense_p.bind(*jax.tree.leaves({m}), tree=jax.tree.structure({m}))",
    "jax.jvp(sparse.todense, ({m},), ({m},))[1]", "repr({m})",
    "sparse.grad(lambda a: (a.todense() ** 2).sum())({m})",
]  # fmt: skip

_TIMES = [
    f"s({f})({a}, {b})"
    for f in ("lambda a, b: a @ b", "lambda a, b: a * b", "lambda a, b: a + b", "lambda a, b: a - b")
    for a, b in (("x", "y"), ("x", "y.T"), ("x", "d34"), ("x", "d34.T"), ("xb", "xb"),
                 ("xd", "xd"), ("x", "v4"), ("x", "x[:1]"), ("x", "x[:, :1]"), ("x3", "x"), ("xr", "xr"),
                 ("xr", "d34.T"), ("x", "xr"), ("d34.T", "x"), ("d34.T", "xr"))
]  # fmt: skip

_ONE = [
    ("sparse.bcoo_gather(x, jnp.array([[2], [0]]), lax.GatherDimensionNumbers(offset_dims=(1,),"
    " collapsed_slice_dims=(0,), start_index_map=(0,)), (1, 4))"),
    "x[jnp.array([2, 0])]", "x[:, jnp.array([2, 0])]", "x3[:, jnp.array([1, 0])]", "x3[:, :, jnp.array([3, 0])]",
    "s(lambda a, i: a.at[:, i].get(mode='clip'))(x, jnp.array([2, 0]))",
    "s(lambda a, i: a.at[i].get(mode='promise_in_bounds'))(x, jnp.array([2, 0]))",
    "s(lambda a, i: a.at[:, i].get(mode='promise_in_bounds'))(x, jnp.array([2, 0]))",
    "s(lambda a, i: a.at[:, :, i].get(mode='promise_in_bounds'))(x3, jnp.array([2, 0]))",
    "s(lambda a, i: a.at[:, i].get(mode='promise_in_bounds'))(xb, jnp.array([2, 0]))",
    "s(lambda a, i: a[i, :])(x, jnp.array(1))", "s(lambda a, i: a[:, i])(x, jnp.array(1))",
    "s(lambda a, i: a.at[:, i].get(mode='clip'))(x, jnp.array(1))",
    "sparse.bcoo_reshape(xb, new_sizes=(2, 12))", "sparse.bcoo_reshape(xb, new_sizes=(6, 4))",
    "sparse.bcoo_reshape(xb, new_sizes=(24,))", "sparse.bcoo_reshape(xd, new_sizes=(6, 4))",
    "sparse.bcoo_reshape(xd, new_sizes=(2, 12))", "sparse.bcoo_reshape(xbb, new_sizes=(6, 4))",
    "sparse.bcoo_reshape(xbb, new_sizes=(3, 2, 4))", "sparse.bcoo_reshape(xbb, new_sizes=(2, 3, 2, 2))",
    "sparse.bcoo_reshape(x, new_sizes=(5, 3))", "sparse.bcoo_reshape(x, new_sizes=(2, 6), dimensions=(1, 0))",
    "x.update_layout(n_batch=1, on_inefficient=None)", "x.update_layout(n_dense=1, on_inefficient=None)",
    "xb.update_layout(n_batch=0)", "xd.update_layout(n_dense=0)", "x.update_layout(n_batch=1)",
    "sparse.bcoo_multiply_dense(x, v4)", "sparse.bcoo_multiply_dense(xb, jnp.ones((3, 1)))",
    "sparse.bcoo_multiply_dense(x, jnp.float32(2))", "sparse.bcoo_multiply_dense(xbb, v4)",
    "sparse.bcoo_multiply_sparse(x, y)", "sparse.bcoo_multiply_sparse(x3, xb)",
    "sparse.bcoo_dot_general(x, d34.T, dimension_numbers=nums([1], [0]))",
    "sparse.bcoo_dot_general(x, y, dimension_numbers=nums([1], [1]))",
    "sparse.bcoo_dot_general(xb, d234, dimension_numbers=nums([2], [2], [0], [0]))",
    "sparse.bcoo_dot_general(d234, xb, dimension_numbers=nums([2], [2], [0], [0]))",
    "sparse.bcoo_dot_general(xb, xb, dimension_numbers=nums([2], [2], [0], [0]))",
    "sparse.bcoo_dot_general_sampled(d34, d34.T, x.indices[:2, :], dimension_numbers=nums([1], [0]))",
    "sparse.bcoo_extract(x, d34 + 1)", "sparse.bcoo_extract(twice, d34 + 1)",
    "sparse.bcoo_extract(twice, d34 + 1, assume_unique=False)", "sparse.bcoo_squeeze(x3[:1], dimensions=(0,))",
    "sparse.bcoo_slice(x, start_indices=(0, 1), limit_indices=(3, 3))",
    "sparse.bcoo_slice(xb, start_indices=(0, 1, 0), limit_indices=(1, 3, 4), strides=(1, 1, 2))",
    "sparse.bcoo_dynamic_slice(x, (1, 2), (2, 2))", "sparse.bcoo_dynamic_slice(xb, (1, 0, 9), (1, 3, 2))",
    "sparse.bcoo_rev(x, dimensions=[0])", "sparse.bcoo_rev(xb, dimensions=[0, 2])",
    "sparse.bcoo_reduce_sum(x, axes=[0])", "sparse.bcoo_reduce_sum(xb, axes=[0])", "sparse.bcoo_reduce_sum(xd, axes=[2])",
    "sparse.bcoo_concatenate([x, y], dimension=0)", "sparse.bcoo_concatenate([x, y], dimension=1)",
    "sparse.bcoo_concatenate([xb, xb], dimension=0)", "sparse.bcoo_concatenate([xb, xb], dimension=2)",
    "sparse.bcoo_broadcast_in_dim(x, shape=(2, 3, 4), broadcast_dimensions=(1, 2))",
    "sparse.bcoo_broadcast_in_dim(x, shape=(3, 4, 2), broadcast_dimensions=(0, 1))",
    "sparse.bcoo_transpose(x, permutation=(1, 0))", "sparse.bcoo_sort_indices(x.T)", "sparse.bcoo_sum_duplicates(twice)",
    "sparse.bcoo_sum_duplicates(twice, nse=3)", "sparse.bcoo_fromdense(d34)", "sparse.bcoo_fromdense(d34, nse=7, n_dense=1)",
    "sparse.bcoo_todense(padded)", "module('experimental.sparse.bcoo').bcoo_eliminate_zeros(x * 0)",
    "sparse.bcsr_fromdense(d34)", "sparse.bcsr_todense(xr)", "sparse.bcsr_extract(xr.indices, xr.indptr, d34)",
    "sparse.bcsr_dot_general(xr, v4, dimension_numbers=nums([1], [0]))", "sparse.bcsr_sum_duplicates(xr)",
    "sparse.bcsr_broadcast_in_dim(xr, shape=(2, 3, 4), broadcast_dimensions=(1, 2))",
    "sparse.bcsr_concatenate([xr, xr], dimension=0)", "sparse.bcsr_concatenate([xr, xr], dimension=1)",
    "xr.to_bcoo()", "sparse.BCSR.from_bcoo(x)", "xr @ v4", "xr @ d34.T", "sparse.eye(3, 4)", "sparse.eye(3, k=1)",
    "sparse.eye(3, sparse_format='bcsr')", "sparse.empty((3, 4))", "sparse.empty((3, 4), sparse_format='bcsr')",
    "sparse.COO.fromdense(d34) @ v4", "sparse.CSR.fromdense(d34) @ v4", "sparse.CSC.fromdense(d34) @ v4",
    "sparse.COO.fromdense(d34) @ d34.T", "sparse.CSR.fromdense(d34) @ d34.T", "sparse.CSC.fromdense(d34) @ d34.T",
    "sparse.CSR.fromdense(d34).T", "sparse.COO.fromdense(d34).T.todense()", "sparse.jacfwd(lambda a: a @ v4)(x)",
    "sparse.jacrev(lambda a: (a @ v4))(x)", "sparse.value_and_grad(lambda a: (a @ v4).sum())(x)",
    "sparse.random_bcoo(random.key(0), (8, 4), nse=0.25).nse", "jax.vmap(lambda a: a @ v4)(xb)",
    "jax.vmap(lambda a: a.sum_duplicates(nse=6).todense())(xb)", "jax.jit(lambda a: a @ a.T)(x).todense()",
    "jax.grad(lambda d: sparse.BCOO((d, x.indices), shape=x.shape).todense().sum())(x.data)",
    ("module('experimental.sparse.linalg').spsolve(*(lambda m: (m.data, m.indices, m.indptr))(sparse.CSR.fromdense("
    "np.eye(3, dtype='float32') * 2)), jnp.ones(3))"),
    "sparse.linalg.__name__.endswith('sparse.linalg')", "sparse.util.SparseEfficiencyWarning is sparse.SparseEfficiencyWarning",
    "sparse.util.CuSparseEfficiencyWarning is sparse.CuSparseEfficiencyWarning", "sparse.bcoo.BCOO is sparse.BCOO",
    "s(lambda a, b: lax.cond(True, lambda a, b: a, lambda a, b: b, a, b))(x, y)",
    "s(lambda a, b: lax.cond(True, lambda a, b: a, lambda a, b: b, a, b))(x, padded)",
    "s(lambda a, b: lax.cond(True, lambda a, b: a, lambda a, b: b, a, b))(x, d34)",
    "s(lambda a: lax.switch(1, [lambda a: a, lambda a: a * 2, lambda a: a * 3], a))(x)",
    "s(lambda a: lax.fori_loop(0, 3, lambda i, a: a + a, a))(x)",
    "s(lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, a)))(x)",
    "s(lambda a, b: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + b.sum(), 0.0))(x, y)",
    "s(lambda a, b: lax.scan(lambda c, t: (c * 2, t), a, b))(x, v4)",
    "s(lambda a: (a, a.T, a.sum(), {'k': a * 2}))(x)", "s(lambda a, b: a @ b, use_tracer=True)(x, v4)",
    "s(lambda a: lax.fori_loop(0, 2, lambda i, a: a * 2, a), use_tracer=True)(x)", "s(lambda a: a * 2)(twice)",
    "s(jnp.sin)(twice)", "s(jnp.multiply)(x, jnp.ones((2, 3, 4)))",
    "s(jnp.dot)(x, v4)", "s(jnp.matmul)(xb, d34.T)", "s(lambda a: jnp.einsum('ij,kj->ik', a, d34))(x)",
    "s(lambda a: jnp.einsum('ij,kj->ki', a, a))(x)", "s(jnp.sum)(x)", "s(lambda a: jnp.mean(a))(x)",
    "s(lambda a: jnp.cumsum(a))(x)", "s(lambda a: a > 0)(x)", "s(jnp.tanh)(xr)", "s(lambda a: a.at[0].set(1.))(x)",
]  # fmt: skip

_CONV = [
    f"sparse.bcoo_conv_general_dilated(coo(np.array([[[0., 1., 0., 2., 3.]]])), {rhs}, window_strides=[{stride}],"
    f" padding={pad}, lhs_dilation={ld}, rhs_dilation={rd})"
    for rhs in ("coo(np.array([[[1., 0., 2.]]]))", "jnp.array([[[1., 0., 2.]]])")
    for stride, pad, ld, rd in ((1, [(0, 0)], None, None), (2, [(1, 1)], None, None), (1, [(2, 1)], [2], None),
                                (1, [(0, 0)], None, [2]), (1, "'SAME'", None, None), (1, "'VALID'", None, None),
                                (2, "'SAME'", None, None))
] + [
    "s(lambda a, b: lax.conv_general_dilated(a, b, (1,), [(0, 0)]))(coo(np.ones((1, 1, 5))), coo(np.ones((1, 1, 2))))",
    "s(lambda a, b: lax.conv(a, b, (1,), 'SAME'))(coo(np.ones((1, 1, 5))), np.ones((1, 1, 2)))",
    "s(lambda a: jnp.convolve(a, jnp.array([1., 2.])))(coo(np.array([0., 1., 0., 3.])))",
    "s(lambda a, b: jnp.convolve(a, b))(coo(np.array([0., 1., 0., 3.])), coo(np.array([1., 2.])))",
    "s(lambda a, b: jnp.convolve(a, b, mode='same'))(coo(np.array([0., 1., 0., 3.])), coo(np.array([1., 2.])))",
]  # fmt: skip

_PLAIN = [
    *[form.format(m=name) for form in _EACH for name in ("x", "xb", "xd", "xr", "twice")],
    *_TIMES, *_ONE, *_CONV,
]  # fmt: skip
_MODES = 'with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"): answer = {}'
PROGRAMS = [
    *_PLAIN,
    *[_MODES.format(text) for text in [*_PLAIN[: 5 * len(_EACH) : 6], *_ONE, *_CONV[:7]]],
]

# JAX's BCSR has fewer operators, and its bcoo_rev takes tuples only.
MORE = ("abs(xr)", "xr ** 2", "xr / 2", "bcoo_rev")
