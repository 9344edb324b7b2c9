"""Signal processing: ``weft.scipy.signal``."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.scipy.convolutions import convolve as convolve
from weft.scipy.convolutions import convolve2d as convolve2d
from weft.scipy.convolutions import correlate as correlate
from weft.scipy.convolutions import correlate2d as correlate2d
from weft.scipy.convolutions import fftconvolve as fftconvolve
from weft.scipy.spectra import csd as csd
from weft.scipy.spectra import detrend as detrend
from weft.scipy.spectra import istft as istft
from weft.scipy.spectra import stft as stft
from weft.scipy.spectra import welch as welch

_expose(_sys.modules[__name__])
