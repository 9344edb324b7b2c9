"""Programs without Python: an assembled program as one module of LLVM's, with functions for C."""
