"""Pictures of compiled programs: one HTML page with the graph, memory, time and source code."""
