"""Where time and memory go: traces that chrome://tracing and Perfetto show, memory profiles."""

from weft.profiler.data import ProfileData as ProfileData
from weft.profiler.data import ProfileEvent as ProfileEvent
from weft.profiler.data import ProfilePlane as ProfilePlane
from weft.profiler.memory import device_memory_profile as device_memory_profile
from weft.profiler.memory import save_device_memory_profile as save_device_memory_profile
from weft.profiler.tracing import ProfileOptions as ProfileOptions
from weft.profiler.tracing import StepTraceAnnotation as StepTraceAnnotation
from weft.profiler.tracing import TraceAnnotation as TraceAnnotation
from weft.profiler.tracing import annotate_function as annotate_function
from weft.profiler.tracing import start_trace as start_trace
from weft.profiler.tracing import stop_trace as stop_trace
from weft.profiler.tracing import trace as trace
