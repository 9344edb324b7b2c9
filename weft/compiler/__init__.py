"""From a staged program to kernels: passes over programs, fusion, and the plan of memory."""
