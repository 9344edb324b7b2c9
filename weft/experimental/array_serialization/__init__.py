"""Arrays written to and read from files, by way of tensorstore if that is installed."""

from weft.experimental.array_serialization import serialization as serialization
