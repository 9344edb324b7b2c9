"""Programs that tests start under mpiexec are no modules to look for examples in."""

collect_ignore_glob = ["mpi_*.py", "mesh_options.py"]
