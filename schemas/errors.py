"""The one kind of error whose text is meant for the person who runs Sangam."""


class UserError(Exception):
    """A mistake outside the code that the user can mend; the text says where, what was got and what to do.

    The command line prints the text alone, without a traceback.

    Attributes:
        is_mistake: in what was given; False for a failure that is told in the same way. A run exits with 2 or with 1.
    """

    is_mistake = True
