"""Aerospike's client for Java, java/AerospikeProgram.java."""

import unittest

import restartable


class AerospikeForJava(restartable.RecordsProgram, unittest.TestCase):
    checks = ("values", "policies", "ends", "operations", "compression", "batches", "scans", "asynchronous", "limits", "many", "other lanes")

    def program(self):
        return restartable.java_program("AerospikeProgram")
