"""What can go wrong, as its text says, and the exit status of `lab/nodes` for it."""


class Failed(Exception):
    """A step that did not work, or made no sense."""

    status = 1


class Missing(Failed):
    """This machine lacks something, which a test takes as a reason to be skipped."""

    status = 77


class Unreachable(Failed):
    """No command can be run in a node, or what became of it is not known: what ssh answers then."""

    status = 255
