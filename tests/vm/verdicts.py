"""How a check in the guest ends, unless it goes well."""


class Failed(Exception):
    """A check did not find what it should; the text says what it found."""


class Absent(Exception):
    """This kernel, or what emulates the card, has not what is checked."""


def need(is_so, found):
    if not is_so:
        raise Failed(found)
