"""Programs of the field, generated: layers, losses, optimisers, solvers, samplers, stencils,
bodies, graphs, transforms, sorts and indexing, with sizes and dtypes drawn by a seed."""
