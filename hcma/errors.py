"""The one exception that means: the user's input is wrong."""


class InputError(Exception):
    """One sentence for the user: what is wrong, where (file, line, key), and what to do.

    Tools print it to stderr without a stack trace and exit with code 2.
    """


class Diverged(InputError):
    """Training cannot go on: what was not finite, at which step, and the last good checkpoint."""
