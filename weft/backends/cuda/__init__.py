"""NVIDIA GPUs: kernels as PTX through LLVM, run by the CUDA driver. No toolkit is needed."""
