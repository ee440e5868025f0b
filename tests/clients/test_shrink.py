"""What is left of a failing episode, where it is known which commands it takes: see shrink.py."""

import unittest

from shrink import TRIES_MAX, fewest


class Fewest(unittest.TestCase):
    def check(self, count, needed, tries_max=TRIES_MAX):
        """Of so many commands those are left that it takes, in their order; gives the tries."""
        tries = 0

        def difference(commands):
            nonlocal tries
            tries += 1
            return f"{len(commands)} commands" if needed <= set(commands) else None

        commands, said = fewest(list(range(count)), difference, tries_max)
        self.assertEqual(said, f"{len(commands)} commands", "it is the difference of what is left")
        self.assertLessEqual(needed, set(commands))
        self.assertEqual(commands, sorted(commands))
        self.assertLessEqual(tries, tries_max)
        if tries < tries_max:
            self.assertEqual(commands, sorted(needed))
        return tries

    def test_what_it_takes_is_left(self):
        for count in (1, 2, 3, 7, 2000):
            for needed in ({0}, {count - 1}, {count // 2}, {0, count - 1}, {count // 3, count // 3 * 2}, set(range(min(count, 5)))):
                tries = self.check(count, needed)
                self.assertLess(tries, 100, f"{needed} of {count}")

    def test_after_so_many_tries_it_is_what_is_left_by_then(self):
        needed = set(range(0, 2000, 20))
        self.assertEqual(self.check(2000, needed), TRIES_MAX)
        self.assertEqual(self.check(2000, needed, 7), 7)
        self.assertLess(self.check(2000, needed, 10_000), 10_000)

    def test_an_order_that_matters_stays(self):
        def difference(commands):
            return "b before a" if "b" in commands and "a" in commands[commands.index("b"):] else None

        self.assertEqual(fewest(list("aaxbxxaxb"), difference), (["b", "a"], "b before a"))

    def test_what_is_none_of_the_commands_is_shown_without_them(self):
        self.assertEqual(fewest([1, 2, 3], lambda commands: "always"), ([], "always"))

    def test_without_a_difference_nothing_is_left_out(self):
        self.assertEqual(fewest([1, 2, 3], lambda commands: None), ([1, 2, 3], None))
