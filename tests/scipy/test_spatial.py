"""``weft.scipy.spatial.transform`` against SciPy."""

import numpy as np
import pytest
from scipy.spatial import transform as reference

import weft
import weft.numpy as jnp
from weft.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
QUATS = RNG.standard_normal((6, 4))


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def close(got, wanted, tolerance=1e-12):
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def pair(quats=QUATS):
    return Rotation.from_quat(quats), reference.Rotation.from_quat(quats)


@pytest.mark.parametrize("quats", [QUATS, QUATS[0], np.eye(4)], ids=["many", "one", "axes"])
def test_representations(quats):
    r, wanted = pair(quats)
    for name in ("as_quat", "as_matrix", "as_rotvec", "as_mrp", "magnitude"):
        close(getattr(r, name)(), getattr(wanted, name)())
    close(r.as_quat(canonical=True), wanted.as_quat(canonical=True))
    close(r.as_quat(scalar_first=True), np.roll(wanted.as_quat(), 1, axis=-1))
    close(r.as_rotvec(degrees=True), wanted.as_rotvec(degrees=True))
    close(r.inv().as_matrix(), wanted.inv().as_matrix())
    close(Rotation.from_matrix(wanted.as_matrix()).as_matrix(), wanted.as_matrix())
    close(Rotation.from_rotvec(wanted.as_rotvec()).as_matrix(), wanted.as_matrix())
    close(Rotation.from_mrp(wanted.as_mrp()).as_matrix(), wanted.as_matrix())
    assert r.single == (np.ndim(quats) == 1)


SEQUENCES = ["xyz", "zyx", "yxz", "XYZ", "ZYX", "zxz", "xyx", "ZXZ", "YXY"]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_euler(sequence):
    r, wanted = pair()
    close(r.as_euler(sequence), wanted.as_euler(sequence), 1e-9)
    close(r.as_euler(sequence, degrees=True), wanted.as_euler(sequence, degrees=True), 1e-9)
    angles = RNG.uniform(-3, 3, (5, 3))
    wanted = reference.Rotation.from_euler(sequence, angles)
    close(Rotation.from_euler(sequence, angles).as_matrix(), wanted.as_matrix())
    # where two axes coincide the angles are not unique, the rotation is
    locked = np.array([0.3, 0.0 if sequence[0] == sequence[2] else np.pi / 2, 0.4])
    r = Rotation.from_euler(sequence, locked)
    found = r.as_euler(sequence)
    assert found[2] == 0
    close(Rotation.from_euler(sequence, found).as_matrix(), r.as_matrix(), 1e-7)


def test_euler_of_fewer_axes():
    for sequence, angles in (("z", 0.3), ("z", [[0.3], [0.4]]), ("XY", [0.2, 0.5])):
        wanted = reference.Rotation.from_euler(sequence, angles, degrees=True)
        found = Rotation.from_euler(sequence, jnp.asarray(angles), degrees=True)
        close(found.as_matrix(), wanted.as_matrix())
    for sequence in ("xY", "xxz", "xyzx", "q", ""):
        with pytest.raises(ValueError, match=r"ax[ei]s"):
            Rotation.from_euler(sequence, jnp.ones(max(len(sequence), 1)))
    with pytest.raises(ValueError, match="three"):
        pair()[0].as_euler("xy")


def test_composition_and_application():
    r, wanted = pair()
    s, other = pair(QUATS[::-1])
    close((r * s).as_matrix(), (wanted * other).as_matrix())
    close((r * s[0]).as_matrix(), (wanted * other[0]).as_matrix())
    vectors = RNG.standard_normal((6, 3))
    close(r.apply(vectors), wanted.apply(vectors))
    close(r.apply(vectors[0], inverse=True), wanted.apply(vectors[0], inverse=True))
    close(r[0].apply(vectors), wanted[0].apply(vectors))
    close(r[1:3].as_quat(), wanted[1:3].as_quat())
    weights = RNG.uniform(0.1, 1, 6)
    for w in (None, weights):
        close(r.mean(w).as_matrix(), wanted.mean(w).as_matrix(), 1e-9)
    assert len(r) == 6
    close(Rotation.concatenate([r, s[0]]).as_quat(), np.r_[r.as_quat(), s[0].as_quat()[None]])
    close(Rotation.identity(2).as_matrix(), np.stack([np.eye(3)] * 2))
    drawn = Rotation.random(weft.random.key(0), 500)
    close(jnp.linalg.norm(drawn.as_quat(), axis=-1), np.ones(500))
    assert np.abs(np.asarray(drawn.as_matrix()).mean(axis=0)).max() < 0.1


def test_single_rotations_have_no_items():
    r = pair(QUATS[0])[0]
    for call in (lambda: len(r), lambda: r[0], lambda: r.mean()):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="three components"):
        r.apply(np.ones(2))
    with pytest.raises(ValueError, match="weights"):
        pair()[0].mean(np.ones(2))


def test_transformations_of_rotations():
    vectors = RNG.standard_normal((4, 3))
    mapped = weft.vmap(lambda v: Rotation.from_rotvec(v).as_matrix())(vectors)
    close(mapped, reference.Rotation.from_rotvec(vectors).as_matrix())
    through = weft.jit(lambda r: r.inv())(pair()[0])
    assert isinstance(through, Rotation)
    # at the identity, where JAX's derivative is NaN
    close(weft.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())(np.zeros(3)), np.eye(3))
    generator = weft.jacobian(lambda v: Rotation.from_rotvec(v).as_matrix())(np.zeros(3))
    close(generator[..., 2], [[0, -1, 0], [1, 0, 0], [0, 0, 0]])
    step = np.array([1e-6, 0, 0])
    slope = weft.jacobian(lambda v: Rotation.from_rotvec(v).as_matrix())(vectors[0])[..., 0]
    rise = [Rotation.from_rotvec(vectors[0] + d).as_matrix() for d in (step, -step)]
    close(slope, (rise[0] - rise[1]) / 2e-6, 1e-8)


def test_slerp():
    times = np.array([0.0, 1.0, 2.5, 3.0])
    r, wanted = pair(QUATS[:4])
    between, reference_between = Slerp.init(times, r), reference.Slerp(times, wanted)
    at = np.r_[RNG.uniform(0, 3, 9), times]
    close(between(at).as_matrix(), reference_between(at).as_matrix(), 1e-9)
    close(between(0.5).as_matrix(), reference_between(0.5).as_matrix(), 1e-9)
    close(weft.jit(lambda s, t: s(t).as_matrix())(between, at), reference_between(at).as_matrix())
    for call in (
        lambda: Slerp.init(times[:2], r),
        lambda: Slerp.init(times[None], r),
        lambda: Slerp.init(times[:1], r[:1]),
        lambda: between(np.ones((2, 2))),
    ):
        with pytest.raises(ValueError, match="Slerp"):
            call()
