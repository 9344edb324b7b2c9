"""Device-neutral lowerings of operations that aren't fused: functions of other primitives, and
kernels. A primitive names its own, as ``file.function``; a file is loaded when it is first needed.
"""
