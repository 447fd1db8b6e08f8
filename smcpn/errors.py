"""The one exception a user is meant to read."""


class InputError(ValueError):
    """An input that cannot be used: one sentence that names the thing and the mend.

    The command line prints the sentence and leaves with exit code 2.
    """


class NotStorableError(InputError):
    """A part of a problem that no file can hold as plain data, such as a function of the user's.

    The sentence names the part, the reason, and what to do: a run is then resumed from the script
    that began it, which has the part.
    """
