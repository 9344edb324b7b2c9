"""Errors for random keys that are used twice: ``weft.debug_key_reuse(True)`` turns them on.

>>> import weft
>>> with weft.debug_key_reuse(True):
...     key = weft.random.key(0)
...     x = weft.random.normal(key)
...     try:
...         weft.random.uniform(key)
...     except weft.errors.KeyReuseError as error:
...         print(str(error).split(":")[0])
random_bits was given a key used before
"""
