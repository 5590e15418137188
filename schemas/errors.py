"""The error whose text is written for the user."""


class UserError(Exception):
    """A mistake that the user can fix; the text has its place, its value and the remedy.

    The command line prints only the text, without a traceback.

    Attributes:
        is_mistake: whether the input is wrong (exit code 2); otherwise a failure with the same report (exit code 1).
    """

    is_mistake = True
