"""Keys: the same words as JAX's, arrays of keys, and what is said of wrong ones."""

import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, random
from weft.base import knobs

# Of seed 123456789: the first two keys of split(key, (2, 3)), fold_in(key, 77), five words and
# five bytes of bits; of seed -1, with 64-bit dtypes, two numbers of 64 bits. From JAX 0.10.2.
RECORDED = {
    "threefry2x32": (
        [[104406182, 1336039183], [3209854053, 248229405]],
        [1978624226, 3265159904],
        [1234914217, 2979648120, 1727634118, 3045616527, 1956778536],
        [169, 120, 198, 143, 40],
        [4699921570172828479, 5821890251550389646],
    ),
    "rbg": (
        [[104406182, 1336039183] * 2, [3209854053, 248229405] * 2],
        [1978624226, 3265159904] * 2,
        [1600453241, 503852664, 3271392164, 4202689553, 3982743644],
        [121, 120, 164, 17, 92],
        [4740103540206151533, 7878011797965096902],
    ),
    "unsafe_rbg": (
        [
            [1600453241, 503852664, 3271392164, 4202689553],
            [231162896, 982432571, 1690949201, 658496825],
        ],
        [2209715662, 1337788904, 1348790256, 3505663839],
        [1600453241, 503852664, 3271392164, 4202689553, 3982743644],
        [121, 120, 164, 17, 92],
        [4740103540206151533, 7878011797965096902],
    ),
    "threefry4x32": (
        [
            [1596495780, 202536126, 3270854339, 629031526],
            [2727356356, 2114496046, 2631877432, 419675002],
        ],
        [1652807317, 3240903329, 681008509, 1273134176],
        [3031558079, 2575351199, 2661302266, 1087116256, 3067708702],
        [191, 159, 250, 224, 30],
        [14715920667527665053, 4565505015159461038],
    ),
    "philox2x32": (
        [[3391508817], [3048858980]],
        [4290184026],
        [1119826222, 4180955987, 3270678912, 1773502782, 125277139],
        [46, 83, 128, 62, 211],
        [4832671451215175801, 9514159173141953935],
    ),
    "philox4x32": (
        [[1798959384, 1522468029], [224777415, 2431772075]],
        [3562912130, 1617499285],
        [1533847597, 594973313, 2656725986, 4140729169, 1122629149],
        [45, 129, 226, 81, 29],
        [14003820986088936871, 3337558919989603508],
    ),
}


def words(keys):
    return np.asarray(random.key_data(keys)).tolist()


@pytest.mark.parametrize("impl", RECORDED)
def test_generators_give_the_recorded_bits(impl):
    split, folded, word, byte, wide = RECORDED[impl]
    key = random.key(123456789, impl=impl)
    assert words(random.split(key, (2, 3)))[0][:2] == split
    assert words(random.fold_in(key, 77)) == folded
    assert random.bits(key, (5,)).tolist() == word
    assert random.bits(key, (5,), "uint8").tolist() == byte
    with weft.enable_x64(True):
        assert random.bits(random.key(-1, impl=impl), (5,), "uint64").tolist()[:2] == wide


def test_the_older_layout():
    with knobs.threefry_partitionable(False):
        key = random.key(5)
        assert words(random.split(key, 3)) == [
            [2939540675, 3006210766],
            [3038296040, 3076691462],
            [279368646, 2516963019],
        ]
        assert random.bits(key, (5,)).tolist() == [
            2939540675, 3006210766, 1324674609, 3076691462, 279368646,
        ]  # fmt: skip
        assert random.bits(key, (5,), "uint16").tolist() == [43454, 54846, 56458, 17241, 42542]
        assert random.bits(key, (5,), "uint8").tolist() == [200, 238, 18, 12, 172]
        assert random.bits(key).shape == ()
    with knobs.threefry_partitionable(False), weft.enable_x64(True):
        assert random.bits(random.key(3), (5,), "uint64").tolist()[0] == 10584361011749870118


@pytest.mark.parametrize(
    ("seed", "x64", "expected"),
    [
        (0, False, [0, 0]),
        (-1, False, [0, 2**32 - 1]),
        (2**40 + 5, False, [0, 5]),
        (True, False, [0, 1]),
        (np.int8(-1), False, [0, 2**32 - 1]),
        (np.uint32(2**32 - 1), False, [0, 2**32 - 1]),
        (-1, True, [2**32 - 1, 2**32 - 1]),
        (2**40 + 5, True, [256, 5]),
    ],
)
def test_seeds(seed, x64, expected):
    with weft.enable_x64(x64):
        assert words(random.key(seed)) == expected
        assert random.PRNGKey(seed).tolist() == expected


def test_rng_bit_generator():
    key = np.array([1, 2, 3, 4], np.uint32)
    after, bits = lax.rng_bit_generator(key, (3, 3))
    assert after.tolist() == [1, 2, 6, 4]
    assert bits.tolist()[0] == [512747620, 1298009047, 1267190206]
    threefry = lax.RandomAlgorithm.RNG_THREE_FRY
    after, bits = lax.rng_bit_generator(key, (3, 3), algorithm=threefry)
    assert after.tolist() == [1, 2, 9, 4]
    assert bits.tolist()[2] == [1335360347, 3981753173, 3812192618]
    with pytest.raises(TypeError, match=r"uint32\[4\] or uint64\[2\], got uint32\[2\]"):
        lax.rng_bit_generator(key[:2], (3,))


def test_rng_uniform_needs_no_key():
    x = np.asarray(lax.rng_uniform(2.0, 3.0, (1000,)))
    assert ((x >= 2) & (x < 3)).all() and 2.4 < x.mean() < 2.6
    assert set(lax.rng_uniform(0, 2, (100,)).tolist()) == {0, 1}


# --- arrays of keys -------------------------------------------------------------------------------


def test_a_key_is_an_array():
    key = random.key(7)
    assert isinstance(key, weft.Array)
    assert (key.shape, key.ndim, key.size, key.itemsize, key.nbytes) == ((), 0, 1, 8, 8)
    assert repr(key) == "Array((), dtype=key<fry>) overlaying:\n[0 7]" == str(key) == f"{key}"
    assert str(key.dtype) == "key<fry>" == key.dtype.name
    assert weft.dtypes.issubdtype(key.dtype, weft.dtypes.prng_key)
    assert key.dtype == random.key_dtype() != random.key_dtype("rbg")
    assert random.key_impl(key) == "threefry2x32" and random.key_impl(random.PRNGKey(0))
    assert random.clone(key) == key
    assert pickle.loads(pickle.dumps(key)) == key
    assert weft.device_get(key) is key
    assert random.split(key, 0).shape == (0,)


def test_keys_move_like_numbers():
    keys = random.split(random.key(0), 4)
    data = np.asarray(random.key_data(keys))
    cases = {
        "index": (keys[1], data[1]),
        "slice": (keys[1:3], data[1:3]),
        "mask": (keys[np.array([True, False, True, False])], data[[0, 2]]),
        "gather": (keys[np.array([3, 0, 0])], data[[3, 0, 0]]),
        "reshape": (keys.reshape(2, 2), data.reshape(2, 2, 2)),
        "concatenate": (jnp.concatenate([keys, keys[:1]]), np.concatenate([data, data[:1]])),
        "stack": (jnp.stack([keys[2], keys[1]]), data[[2, 1]]),
        "broadcast": (jnp.broadcast_to(keys[0], (2,)), data[[0, 0]]),
        "where": (jnp.where(np.arange(4) < 1, keys, keys[::-1]), data[[0, 2, 1, 0]]),
        "set": (keys.at[0].set(keys[3]), data[[3, 1, 2, 3]]),
        "dynamic": (weft.jit(lambda k, i: k[i])(keys, 2), data[2]),
        "zeros": (jnp.zeros((2,), keys.dtype), np.zeros((2, 2))),
        "list": (jnp.array([keys[0], keys[1]]), data[:2]),
    }
    for name, (got, expected) in cases.items():
        assert got.dtype == keys.dtype, name
        np.testing.assert_array_equal(random.key_data(got), expected, err_msg=name)
    assert (keys == keys[::-1]).tolist() == [False] * 4
    assert (keys != keys[0]).tolist() == [False, True, True, True]
    assert [k.tolist() for k in map(random.key_data, keys)] == data.tolist()


def test_keys_under_transformations():
    keys = random.split(random.key(0), 4)
    one_by_one = [words(random.split(k, 3)) for k in keys]
    assert words(weft.vmap(lambda k: random.split(k, 3))(keys)) == one_by_one
    folded = weft.vmap(random.fold_in, (None, 0))(keys[0], np.arange(3))
    assert words(folded) == [words(random.fold_in(keys[0], i)) for i in range(3)]
    assert words(weft.vmap(random.key)(np.arange(3))) == [[0, 0], [0, 1], [0, 2]]
    raw = random.split(random.PRNGKey(0), 4)
    assert weft.vmap(random.bits, in_axes=1)(raw.T).tolist() == [
        random.bits(k).item() for k in keys
    ]
    last, drawn = lax.scan(lambda k, _: (random.fold_in(k, 1), k), keys[0], None, length=3)
    assert drawn.shape == (3,) and drawn[0] == keys[0] and drawn.dtype == keys.dtype
    assert last == random.fold_in(drawn[2], 1)
    looped = lax.fori_loop(0, 3, lambda i, k: random.fold_in(k, i), keys[0])
    assert looped == weft.jit(lambda k: random.fold_in(random.fold_in(random.fold_in(k, 0), 1), 2))(
        keys[0]
    )
    chosen = weft.vmap(lambda b, k: lax.cond(b, lambda k: random.split(k)[1], lambda k: k, k))
    picked = chosen(np.array([True, False, True, False]), keys)
    assert (picked == keys).tolist() == [False, True, False, True]
    assert weft.grad(lambda x, k: x * random.uniform(k))(2.0, keys[0]) == random.uniform(keys[0])


def test_keys_in_programs():
    text = str(weft.make_jaxpr(lambda s: random.split(random.fold_in(random.key(s), 3)))(0))
    assert text == (
        "{ lambda ; a:i32[]. let\n"
        "    b:key<fry>[] = random_seed[impl=fry] a\n"
        "    c:key<fry>[] = random_fold_in b 3:u32[]\n"
        "    d:key<fry>[2] = random_split[shape=(2,)] c\n"
        "  in (d,) }"
    )


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda k: random.uniform(None),
            TypeError,
            "random key, got None of type NoneType",
        ),
        (lambda k: random.uniform([0, 1]), TypeError, r"make a key with weft.random.key\(seed\)"),
        (lambda k: random.split(3), TypeError, "split takes a random key, got 3"),
        (lambda k: random.uniform(jnp.zeros(2)), TypeError, r"uint32 with shape .*float32\[2\]"),
        (lambda k: random.split(jnp.zeros(3, "uint32")), TypeError, r"got uint32\[3\]"),
        (lambda k: random.normal(random.split(k)), ValueError, r"single key, got .*\(2,\).*vmap"),
        (lambda k: random.key(1.5), TypeError, r"integer seed, got float32\[\]"),
        (lambda k: random.key(k), TypeError, "got a random key"),
        (lambda k: random.key(np.arange(2)), TypeError, r"scalar seed, got .*\(2,\)"),
        (lambda k: random.key(0, impl="foo"), ValueError, "no random generator 'foo'"),
        (lambda k: random.key(0, impl=3), TypeError, "got 3 of type int"),
        (lambda k: random.key(0, impl="rbg", dtype="rbg"), ValueError, "impl or dtype, not both"),
        (lambda k: random.key(2**63), OverflowError, "too large"),
        (lambda k: random.fold_in(k, np.arange(2)), TypeError, r"scalar, got .*\(2,\)"),
        (lambda k: random.fold_in(k, -1), OverflowError, "-1 out of bounds"),
        (lambda k: random.split(k, -1), ValueError, "negative number of keys"),
        (lambda k: random.wrap_key_data([1, 2]), TypeError, "array of words, got"),
        (lambda k: k + 1, TypeError, "key<fry>"),
        (lambda k: k < k, TypeError, "key<fry>"),
        (lambda k: -k, TypeError, "key<fry>"),
        (lambda k: k == random.key(0, impl="rbg"), TypeError, "key<rbg>"),
        (bool, TypeError, "cannot be converted to bool"),
        (int, TypeError, "cannot be converted to int"),
        (np.asarray, TypeError, "weft.random.key_data"),
        (lambda k: k.tolist(), TypeError, "weft.random.key_data"),
        (lambda k: lax.convert_element_type(k, "float32"), ValueError, "cannot convert"),
        (hash, TypeError, "unhashable"),
        (len, TypeError, "len"),
    ],
)
def test_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call(random.key(0))


def test_raw_keys_may_be_refused():
    raw = random.PRNGKey(0)
    with knobs.legacy_prng_key("error"), pytest.raises(ValueError, match="raw uint32 array"):
        random.uniform(raw)
    with knobs.legacy_prng_key("warn"), pytest.warns(UserWarning, match="raw uint32 array"):
        random.uniform(raw)
    with knobs.enable_custom_prng(True):
        assert random.PRNGKey(0) == random.key(0)
        with pytest.warns(FutureWarning, match="raw uint32 array"):
            random.uniform(raw)
    with knobs.random_seed_offset(5):
        assert words(random.key(2)) == [0, 7]
    with knobs.default_prng_impl("rbg"):
        assert random.key(0).dtype.name == "key<rbg>"
