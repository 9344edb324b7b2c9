"""What may still change."""

from weft.api.callbacks import io_callback as io_callback
