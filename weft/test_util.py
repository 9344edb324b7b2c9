"""Checks of derivatives against finite differences."""

from weft.testing import check_grads as check_grads
from weft.testing import check_jvp as check_jvp
from weft.testing import check_vjp as check_vjp
