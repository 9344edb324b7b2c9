"""How arrays are divided over the devices of a mesh, from one description of each primitive.

A primitive's ``factors`` say which of its dimensions belong together. The shardings that types
carry and those of all values of a program follow from them, and in ``programs`` the program of one
device does. Clients in ``runtime`` run such programs.
"""
