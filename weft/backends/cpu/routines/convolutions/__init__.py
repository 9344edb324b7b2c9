"""Convolutions and contractions with affine indices."""
