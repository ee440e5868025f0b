"""Aerospike's client for Rust, the program in rust/aerospike/."""

import unittest

import restartable


class AerospikeForRust(restartable.RecordsProgram, unittest.TestCase):
    def program(self):
        return [restartable.rust_program("aerospike-client")]
