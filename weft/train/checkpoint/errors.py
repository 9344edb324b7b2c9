"""The one error that reading or writing a checkpoint raises."""


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged, foreign, or does not fit what it is restored into.

    >>> raise CheckpointError("no checkpoint here")
    Traceback (most recent call last):
        ...
    weft.train.checkpoint.errors.CheckpointError: no checkpoint here
    """
