"""Programs as users write them, each with one mistake, which is named with its place; and programs
that look dangerous and are right, which raise nothing."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, linen, nn, optim, random
from weft.experimental.ode import odeint

F = np.float32
MISTAKES, RIGHT = {}, {}


def mistake(*told):
    def add(function):
        MISTAKES[function.__name__] = (function, told)
        return function

    return add


def right(function):
    RIGHT[function.__name__] = function
    return function


# --- mistakes: a function of no arguments gives a function and its arguments ----------------------


@mistake("sub made nan at [1, 0]: -inf - -inf")
def a_row_that_is_all_masked():
    mask = np.array([[True, False], [False, False]])
    return lambda s: nn.softmax(jnp.where(mask, s, -jnp.inf), -1), np.ones((2, 2), F)


@mistake("mul made nan at [0]: 0 * -inf", "log made inf at [0]: log(0)")
def an_entropy():
    return lambda p: -(p * jnp.log(p)).sum(), F([0, 1])


@mistake("div divided by zero at [1]: 0 / 0", "iteration 1 of the loop")
def a_gradient_under_vmap_of_scan():
    def loss(w, row):
        def step(total, t):
            h = jnp.maximum(w * t, 0.0)
            return total + h * jnp.log(h), None

        return lax.scan(step, 0.0, row)[0]

    rows = F([[1, 2, 3], [1, -1, 2]])
    return weft.grad(lambda w: weft.vmap(loss, (None, 0))(w, rows).sum()), F(1)


@mistake("got index 8 for axis 0 of size 8", "iteration 6 of the loop")
def a_stencil_past_the_end():
    def f(x):
        step = lambda c, i: (c + x[i] - x[i - 1] + x[i + 1], None)
        return lax.scan(step, 0.0, jnp.arange(1, 8))[0]

    return f, np.arange(8, dtype=F)


@mistake("gather got index 3 for axis 1 of size 3, at [1, 0]")
def a_label_too_large():
    labels = np.array([0, 3])
    loss = optim.softmax_cross_entropy_with_integer_labels
    return lambda x: loss(x, labels).mean(), np.ones((2, 3), F)


@mistake("gather got index 5 for axis 0 of size 5, at [1]")
def an_embedding():
    layer = linen.Embed(5, 3)
    params = layer.init(random.key(0), np.array([0]))
    return lambda ids: layer.apply(params, ids), np.array([1, 5])


@mistake("got index 5 of 3 elements for axis 0 of size 7", "iteration 5 of the loop")
def a_block_that_does_not_fit():
    block = lambda i, b: lax.dynamic_update_slice(b, jnp.ones(3), (i,))
    return lambda b: lax.fori_loop(0, 6, block, b), np.zeros(7, F)


@mistake("mul overflowed int32: 99507544 * 31", "iteration 3 of the loop")
def a_hash_of_signed_numbers():
    step = lambda x: lax.fori_loop(0, 5, lambda i, h: h * 31 + x[i], jnp.int32(7))
    return step, np.full(5, 99999, np.int32)


@mistake("reduce_sum overflowed int8")
def a_sum_in_int8():
    return lambda x: jnp.sum(x, dtype=jnp.int8), np.full(10, 100, np.int8)


@mistake("div divided by zero at [1]: 0 / 0", "iteration 0 of the loop")
def adam_without_epsilon():
    rule = optim.adam(1e-3, eps=0.0)

    def f(w):
        def step(carry, _):
            w, s = carry
            updates, s = rule.update(weft.grad(lambda w: (w[0] - 1) ** 2)(w), s, w)
            return (optim.apply_updates(w, updates), s), None

        return lax.scan(step, (w, rule.init(w)), None, length=4)[0][0]

    return f, np.zeros(3, F)


@mistake("mul made nan at [0]: inf * 0", "rsqrt made inf at [0]: rsqrt(0)")
def a_chain_of_updates():
    rule = optim.chain(optim.clip_by_global_norm(1.0), optim.scale_by_rms(eps=0.0))
    return lambda g: rule.update(g, rule.init(g))[0], F([0, 1, 2])


@mistake("rsqrt made inf at [0, 0]: rsqrt(0)")
def a_batch_without_variance():
    layer = linen.BatchNorm(use_running_average=False, epsilon=0.0)
    x = np.ones((3, 2), F)
    variables = layer.init(random.key(0), x)
    return lambda x: layer.apply(variables, x, mutable=["batch_stats"])[0], x


@mistake("sub made nan: inf - inf", "mul made inf at [0]: 300 * 300")
def a_variance_in_float16():
    return lambda x: (x * x).mean() - x.mean() ** 2 - (x * x).sum(), np.full(8, 300, np.float16)


@mistake("log made nan at [1]: log(-0.5)")
def a_logarithm_in_bfloat16():
    return lambda x: jnp.log(x.astype(jnp.bfloat16) - 1), F([1.001, 0.5])


@mistake("log made nan at [0]: log(-1)")
def a_branch_under_vmap():
    branch = lambda v: lax.cond(v > -2, jnp.log, lambda v: v, v)
    return lambda x: weft.vmap(branch)(x), F([-1, -3, 2])


@mistake("log made nan: log(-2)")
def a_rule_of_ones_own():
    f = weft.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], t[0] * jnp.log(p[0])))
    return lambda x: weft.jvp(f, (x,), (x,))[1], F(-2)


@mistake("dot_general made nan at [0]", "inf at [0]", "iteration 3 of the loop")
def a_network_that_explodes():
    def loss(w):
        step = lambda h, x: (jnp.exp(w @ h) + x, h)
        return lax.scan(step, jnp.zeros(2), jnp.ones((12, 2)))[1].mean()

    return weft.value_and_grad(loss), np.eye(2, dtype=F) * 3


@mistake("sqrt made nan", "iteration 4 of the loop")
def an_equation_that_leaves_its_domain():
    times = jnp.linspace(0.0, 1.5, 5)
    return lambda y: odeint(lambda y, t: jnp.sqrt(1 - y * y) * 2, y, times, mxstep=50), F(0.9)


@mistake("div divided by zero at [2]: 0 / 0")
def means_of_empty_groups():
    ids = np.array([0, 1, 1, 3])
    count = weft.ops.segment_sum
    return lambda x: count(x, ids, 4) / count(jnp.ones(4), ids, 4), np.ones(4, F)


@mistake("cholesky made nan")
def a_covariance_that_is_not_one():
    return lambda a: jnp.linalg.slogdet(jnp.linalg.cholesky(a)), F([[1, 2], [2, 1]])


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_named(name):
    make, told = MISTAKES[name]
    function, x = make()
    with weft.checks(), pytest.raises(weft.errors.CheckError) as caught:
        weft.jit(function)(x)
    for text in (*told, "test_users.py:"):
        assert text in str(caught.value), str(caught.value)


# --- programs that are right ----------------------------------------------------------------------


@right
def causal_attention():
    def f(q):
        scores = jnp.where(jnp.tril(jnp.ones((4, 4), bool)), q @ q.T, -jnp.inf)
        return (nn.softmax(scores, -1) @ q).sum()

    return weft.grad(f), np.ones((4, 3), F)


@right
def attention_by_blocks():
    def f(x):
        q, blocks = x[:8], x.reshape(4, 2, 4)
        masks = jnp.arange(8).reshape(4, 1, 2) <= jnp.arange(8)[:, None]

        def step(carry, block):
            top, total, values = carry
            keys, mask = block
            s = jnp.where(mask, q @ keys.T, -jnp.inf)
            new = jnp.maximum(top, s.max(-1))
            shrink = jnp.where(jnp.isneginf(top), 0.0, jnp.exp(top - new))
            p = jnp.where(jnp.isneginf(s), 0.0, jnp.exp(s - new[:, None]))
            return (new, total * shrink + p.sum(-1), values * shrink[:, None] + p @ keys), None

        start = (jnp.full(8, -jnp.inf), jnp.zeros(8), jnp.zeros((8, 4)))
        _, total, values = lax.scan(step, start, (blocks, masks))[0]
        return (values / total[:, None]).sum()

    return weft.value_and_grad(f), np.cos(np.arange(32, dtype=F)).reshape(8, 4)


@right
def a_norm_behind_where():
    return weft.grad(lambda x: jnp.where((x == 0).all(), 0.0, jnp.linalg.norm(x))), np.zeros(3, F)


@right
def distances_without_the_diagonal():
    def f(x):
        r = jnp.sqrt(((x[:, None] - x) ** 2).sum(-1))
        return jnp.where(jnp.eye(4, dtype=bool), 0.0, 1 / r).sum()

    return weft.value_and_grad(f), np.sin(np.arange(8, dtype=F)).reshape(4, 2)


@right
def distances_with_an_infinite_diagonal():
    def f(x):
        r = ((x[:, None] - x) ** 2).sum(-1) + jnp.where(jnp.eye(4, dtype=bool), jnp.inf, 0.0)
        return (1 / r).sum() + r.min()

    return weft.value_and_grad(f), np.sin(np.arange(8, dtype=F)).reshape(4, 2)


@right
def padded_rows():
    ids = np.array([0, 9, -7, 3])

    def f(table):
        rows = table[ids]
        return jnp.where((ids[:, None] >= 0) & (ids[:, None] < 4), rows, 0.0).sum()

    return weft.value_and_grad(f), np.ones((4, 2), F)


@right
def missing_numbers():
    def f(x):
        known = ~jnp.isnan(x)
        return jnp.where(known, (x - 1) ** 2, 0).sum() / known.sum() + jnp.nanmean(x * x)

    return weft.value_and_grad(f), F([[1, np.nan], [2, 3]])


@right
def a_hidden_markov_model():
    moves = F([[0, -1, -np.inf], [-np.inf, 0, -1], [-np.inf, -np.inf, 0]])

    def f(scores):
        step = lambda c, x: (nn.logsumexp(c[:, None] + moves, 0) + x, None)
        start = jnp.where(jnp.arange(3) == 0, 0.0, -jnp.inf)
        return nn.logsumexp(lax.scan(step, start, scores)[0])

    return weft.value_and_grad(f), np.cos(np.arange(15, dtype=F)).reshape(5, 3)


@right
def a_beam():
    def step(scores, tokens):
        best, where = lax.top_k((scores[:, None] + nn.log_softmax(tokens, -1)).reshape(-1), 3)
        return best, where

    start = F([0, -np.inf, -np.inf])
    return lambda x: lax.scan(step, start, x), np.cos(np.arange(60, dtype=F)).reshape(4, 3, 5)


@right
def a_hash():
    step = lambda x: lambda i, h: (h ^ x[i]) * jnp.uint32(16777619)
    f = lambda x: lax.fori_loop(0, 8, step(x), jnp.uint32(2166136261))
    return f, np.arange(8, dtype=np.uint32)


@right
def the_smallest_so_far():
    return lambda x: lax.scan(lambda c, v: (jnp.minimum(c, v), c), jnp.inf, x), np.arange(
        4, dtype=F
    )


@right
def returns_of_episodes():
    done = np.array([0, 0, 1, 0, 0], bool)
    step = lambda c, x: (x[0] + 0.9 * jnp.where(x[1], 0.0, c), c)
    return lambda r: lax.scan(step, 0.0, (r, done), reverse=True), np.ones(5, F)


@right
def a_state_that_is_reset():
    """What a round makes of a state that the next one resets is discarded."""

    def step(carry, limit):
        state, done = carry
        state = jnp.where(done, 1.0, state)
        after = jnp.sqrt(state - limit)
        return (after, state < limit), state

    f = lambda x: lax.scan(step, (x, x < 0), jnp.array([0.0, 2.0, 0.5, 0.25]))[1]
    return f, F([-1.0, 1.0])


@right
def loops_of_their_own_lengths():
    def f(v):
        more = lambda s: s[1] < s[0]
        return lax.while_loop(more, lambda s: (s[0], s[1] + jnp.sqrt(s[0] - s[1])), (v, 0.0))[1]

    return weft.vmap(f), F([1, 5, -2])


@right
def switch_under_vmap():
    f = lambda x: weft.vmap(lambda i, x: lax.switch(i, [jnp.log, jnp.sqrt, jnp.abs], x))(
        jnp.arange(3), x
    )
    return f, F([1, 0, -3])


@right
def a_running_variance():
    def step(carry, x):
        n, mean, total = carry
        n, off = n + 1, x - mean
        mean = mean + off / n
        total = total + off * (x - mean)
        return (n, mean, total), jnp.where(n > 1, total / (n - 1), 0.0)

    return lambda x: lax.scan(step, (0, 0.0, 0.0), x), np.ones(4, F)


@right
def layers_of_equal_numbers():
    layers = [linen.Dense(4), linen.BatchNorm(use_running_average=False), linen.LayerNorm()]
    net, x = linen.Sequential(layers), np.ones((3, 2), F)
    variables = net.init(random.key(0), x)
    return weft.grad(lambda x: net.apply(variables, x, mutable=["batch_stats"])[0].sum()), x


@right
def solvers_that_begin_at_the_solution():
    cg = weft.scipy.sparse.linalg.cg
    minimize = weft.scipy.optimize.minimize
    return lambda b: (
        cg(lambda x: 2 * x, b, x0=b / 2)[0],
        minimize(lambda x: ((x - b) ** 2).sum(), b, method="BFGS").x,
    ), F([2, 0, 0])


@right
def draws():
    def f(seed):
        keys = random.split(random.key(seed), 6)
        logits = jnp.array([0.0, -jnp.inf])
        return (
            random.gamma(keys[0], 0.3, (4,)),
            random.categorical(keys[1], logits),
            random.gumbel(keys[2], (9,)),
            random.dirichlet(keys[3], jnp.ones(3) * 0.1),
            random.truncated_normal(keys[4], -2, 2, (9,)),
            random.poisson(keys[5], 3.0, (4,)),
        )

    return f, np.int32(3)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_raises_nothing(name):
    function, x = RIGHT[name]()
    want = weft.jit(function)(x)
    with weft.checks():
        found = weft.jit(function)(x)
    assert not any(np.isnan(y).any() for y in map(np.asarray, weft.tree.leaves(found)))
    for y, z in zip(weft.tree.leaves(found), weft.tree.leaves(want), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-5)


def test_a_function_of_weft_s_own_stands_where_it_is_given():
    """Branches and loops that are `jnp.log` share no line."""
    lines = []
    for branch in (
        lambda v: lax.cond(v > -2, jnp.log, lambda v: v, v),
        lambda v: lax.cond(v < 2, jnp.log, lambda v: v, v),
    ):
        with weft.checks(nan=True), pytest.raises(FloatingPointError) as caught:
            weft.jit(branch)(F(-1))
        lines.append(str(caught.value).split("test_users.py:")[1].split(",")[0])
    assert int(lines[1]) == int(lines[0]) + 1
