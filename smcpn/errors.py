"""The one exception a user is meant to read."""


class InputError(ValueError):
    """An input that cannot be used: one sentence that names the thing and the mend.

    The command line prints the sentence and leaves with exit code 2.
    """
