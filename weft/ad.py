"""What to ask of a pullback for each input, by ``f_vjp.with_refs``.

>>> import weft, weft.numpy as jnp
>>> total = weft.new_ref(jnp.zeros(2))
>>> y, pull = weft.vjp(lambda x, s: (s * x).sum(), jnp.ones(2), 3.0)
>>> pull.with_refs(total, DontWant())(1.0)
(GradRef(), DidntWant())
>>> total
Ref([3., 3.], dtype=float32)
"""

from weft.api.wanted import DidntWant as DidntWant
from weft.api.wanted import DontWant as DontWant
from weft.api.wanted import GradRef as GradRef
from weft.api.wanted import GradValue as GradValue
