"""The fewest commands with which two servers still differ, of the many with which they did."""

# Tries while they are looked for: each is an episode of two servers.
TRIES_MAX = 300


def fewest(commands, difference, tries_max=TRIES_MAX):
    """What is left of a list when all is taken away without which there is a difference as well, and that difference.

    `difference(commands)` tries some of them, in their order, and gives the difference, or None: there is none. First all behind the
    shortest beginning that has one goes, then halves of what is left, quarters, and in the end single ones. After `tries_max` tries
    it is what is left by then. None for the difference: there is none with all of them.
    """
    tries = 1
    said = difference(commands)
    if said is None:
        return commands, None

    def differs(some):
        nonlocal commands, said, tries
        if tries == tries_max:
            return False
        tries += 1
        found = difference(some)
        if found is None:
            return False
        commands, said = some, found
        return True

    low, high = 0, len(commands)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if differs(commands[:middle]) else (middle, high)
    size = max(len(commands) // 2, 1)
    while size >= 1:
        at = 0
        while at < len(commands):
            if not differs(commands[:at] + commands[at + size:]):
                at += size
        size //= 2
    return commands, said
