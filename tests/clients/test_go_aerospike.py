"""Aerospike's client for Go, the program in go/aerospike/."""

import unittest

import restartable


class AerospikeForGo(restartable.RecordsProgram, unittest.TestCase):
    checks = ("values", "policies", "ends", "operations", "batches", "scans", "limits", "many", "other lanes", "compression")

    def program(self):
        return [restartable.go_program("aerospike")]
