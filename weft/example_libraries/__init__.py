"""Small libraries that many examples were written with: ``stax`` and ``optimizers``."""
