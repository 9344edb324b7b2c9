"""Contractions with affine indices: convolutions and windows, and the tiles, texts and copies that
products have too."""
