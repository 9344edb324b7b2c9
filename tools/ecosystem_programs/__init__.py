"""Small programs of libraries written for JAX, one for each main feature.

A module is named after its library and holds functions, each a program: it sets up what it needs
and returns a function of no arguments that gives a tree of arrays. They run on JAX and on weft;
`tools/ecosystem.py` compares what they give and how long they take.
"""
