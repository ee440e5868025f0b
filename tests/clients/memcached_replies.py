"""Replies of two memcached servers, compared byte by byte but for what may differ: which number a CAS is, and a second
more or less in times."""

import base64
import contextlib
import itertools
import struct

# Seconds by which times may be apart: both servers round them, and one is asked later.
SECONDS_APART_MAX = 3


class Difference(Exception):
    """Two servers have answered differently; the text shows how."""


class CasPairs:
    """Which CAS of one server is which of the other. Every CAS of the left, memcached, is one change of one document."""

    def __init__(self, is_unique_right):
        self.right_of = {}
        self.left_of = {}
        # With several lanes documents of different keys may have the same CAS.
        self.is_unique_right = is_unique_right

    def same(self, left, right):
        if left == 0 or right == 0:
            return left == right
        is_same = self.right_of.setdefault(left, right) == right
        if self.is_unique_right:
            is_same = self.left_of.setdefault(right, left) == left and is_same
        return is_same


def times_same(left, right):
    """Both -1, which is no end, or near each other. What has ended has 0 left; memcached counts below zero there, in 32 bits."""
    left, right = int(left), int(right)
    is_near = -1 not in (left, right) and abs(left - right) <= SECONDS_APART_MAX
    return left == right or is_near or (left > 1 << 31 and right == 0)


def split_lines(data):
    """Replies in text: the words of each line, and the block of data behind it."""
    at = 0
    while at < len(data):
        end = data.find(b"\r\n", at)
        if end < 0:
            yield [data[at:]], b""
            return
        words = data[at:end].split(b" ")
        at, block = end + 2, b""
        if words[0] == b"VALUE" or words[0] == b"VA":
            size = int(words[3 if words[0] == b"VALUE" else 1])
            block, at = data[at:at + size + 2], at + size + 2
        yield words, block


def key_of_flags(flags):
    key = next((flag[1:] for flag in flags if flag[:1] == b"k"), None)
    return base64.b64decode(key) if key is not None and b"b" in flags else key


def compare_words(left, right, pairs, note):
    """Compares the lines of two replies; `note(key, cas_left, cas_right)` is told of each CAS."""
    if left == right and not (left[0] in (b"HD", b"VA", b"VALUE") and len(left) > 1):
        return True
    if len(left) != len(right) or left[0] != right[0]:
        return False
    if left[0] == b"VALUE" and len(left) == 5:
        note(left[1], int(left[4]), int(right[4]))
        return left[:4] == right[:4] and pairs.same(int(left[4]), int(right[4]))
    if left[0] == b"ME":
        return compare_debug(left, right, pairs)
    if left[0] not in (b"HD", b"VA"):
        return left == right
    start = 1 if left[0] == b"HD" else 2
    if left[:start] != right[:start]:
        return False
    key = key_of_flags(left[start:])
    for one, other in zip(left[start:], right[start:]):
        if one[:1] != other[:1]:
            return False
        if one[:1] == b"c" and len(one) > 1:
            note(key, int(one[1:]), int(other[1:]))
            if not pairs.same(int(one[1:]), int(other[1:])):
                return False
        elif one[:1] in (b"t", b"l") and len(one) > 1:
            if not times_same(one[1:], other[1:]):
                return False
        elif one != other:
            return False
    return True


def compare_debug(left, right, pairs):
    """`me`: what is known of an item, for people. Class and size are memcached's own."""
    if left[1] != right[1]:
        return False
    fields = [dict(word.partition(b"=")[::2] for word in words[2:]) for words in (left, right)]
    if list(fields[0]) != list(fields[1]):
        return False
    for name, one, other in ((name, fields[0][name], fields[1][name]) for name in fields[0]):
        if name == b"cas":
            is_same = pairs.same(int(one), int(other))
        elif name in (b"exp", b"la"):
            is_same = times_same(one, other)
        else:
            is_same = name in (b"cls", b"size") or one == other
        if not is_same:
            return False
    return True


def compare_lines(left, right, pairs, note):
    """Raises Difference at the first reply that is another one."""
    replies = itertools.zip_longest(split_lines(left), split_lines(right), fillvalue=([b"(nothing)"], b""))
    for index, ((left_words, left_block), (right_words, right_block)) in enumerate(replies):
        if left_block != right_block or not compare_words(left_words, right_words, pairs, note):
            raise Difference(f"reply {index}: {show(left_words, left_block)} and not {show(right_words, right_block)}")


def show(words, block):
    text = b" ".join(words) + (b"\r\n" + block if block else b"")
    return f"{text[:300]!r}" + (f" of {len(text)} bytes" if len(text) > 300 else "")


def split_frames(data):
    """Binary replies: the header without its CAS, the CAS, the body."""
    at = 0
    while at + 24 <= len(data):
        size = struct.unpack_from(">I", data, at + 8)[0]
        yield data[at:at + 16], struct.unpack_from(">Q", data, at + 16)[0], data[at + 24:at + 24 + size]
        at += 24 + size
    if at < len(data):
        yield data[at:], 0, b""


def compare_frames(left, right, pairs, note, key_of):
    frames = itertools.zip_longest(split_frames(left), split_frames(right), fillvalue=(b"(nothing)", 0, b""))
    for index, ((left_header, left_cas, left_body), (right_header, right_cas, right_body)) in enumerate(frames):
        if left_header != right_header or left_body != right_body or not pairs.same(left_cas, right_cas):
            texts = [f"{header.hex(' ')} cas {cas} {body[:100]!r}" for header, cas, body in (
                (left_header, left_cas, left_body), (right_header, right_cas, right_body))]
            raise Difference(f"reply {index}: {texts[0]} and not {texts[1]}")
        if left_cas:
            with contextlib.suppress(struct.error):
                note(key_of.get(struct.unpack_from(">I", left_header, 12)[0]), left_cas, right_cas)
