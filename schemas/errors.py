"""The error whose text is written for the user."""


class UserError(Exception):
    """A mistake that the user can fix; the text says where it is, what was got and what to do.

    The command line prints only the text, without a traceback.

    Attributes:
        is_mistake: True: the input is wrong, exit code 2. False: a failure reported in the same way, exit code 1.
    """

    is_mistake = True
