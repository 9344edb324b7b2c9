"""``weft.scipy.linalg``: linear algebra with SciPy's names."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.scipy.matrix_functions import expm as expm
from weft.scipy.matrix_functions import expm_frechet as expm_frechet
from weft.scipy.matrix_functions import funm as funm
from weft.scipy.matrix_functions import polar as polar
from weft.scipy.matrix_functions import rsf2csf as rsf2csf
from weft.scipy.matrix_functions import solve_sylvester as solve_sylvester
from weft.scipy.matrix_functions import sqrtm as sqrtm
from weft.scipy.matrix_solves import block_diag as block_diag
from weft.scipy.matrix_solves import cho_factor as cho_factor
from weft.scipy.matrix_solves import cho_solve as cho_solve
from weft.scipy.matrix_solves import cholesky as cholesky
from weft.scipy.matrix_solves import det as det
from weft.scipy.matrix_solves import eigh as eigh
from weft.scipy.matrix_solves import hessenberg as hessenberg
from weft.scipy.matrix_solves import inv as inv
from weft.scipy.matrix_solves import lu as lu
from weft.scipy.matrix_solves import lu_factor as lu_factor
from weft.scipy.matrix_solves import lu_solve as lu_solve
from weft.scipy.matrix_solves import qr as qr
from weft.scipy.matrix_solves import qr_multiply as qr_multiply
from weft.scipy.matrix_solves import schur as schur
from weft.scipy.matrix_solves import solve as solve
from weft.scipy.matrix_solves import solve_triangular as solve_triangular
from weft.scipy.matrix_solves import svd as svd
from weft.scipy.special_matrices import circulant as circulant
from weft.scipy.special_matrices import companion as companion
from weft.scipy.special_matrices import convolution_matrix as convolution_matrix
from weft.scipy.special_matrices import dft as dft
from weft.scipy.special_matrices import fiedler as fiedler
from weft.scipy.special_matrices import fiedler_companion as fiedler_companion
from weft.scipy.special_matrices import hadamard as hadamard
from weft.scipy.special_matrices import hankel as hankel
from weft.scipy.special_matrices import helmert as helmert
from weft.scipy.special_matrices import hilbert as hilbert
from weft.scipy.special_matrices import invhilbert as invhilbert
from weft.scipy.special_matrices import invpascal as invpascal
from weft.scipy.special_matrices import leslie as leslie
from weft.scipy.special_matrices import pascal as pascal
from weft.scipy.special_matrices import toeplitz as toeplitz
from weft.scipy.tridiagonal import eigh_tridiagonal as eigh_tridiagonal

_expose(_sys.modules[__name__])
