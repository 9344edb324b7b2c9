"""The folder that `weft.as_jax.children` puts on the path of child processes.

It holds a `sitecustomize`, which Python imports when it starts.
"""
