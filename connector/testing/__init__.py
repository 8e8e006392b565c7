"""Asserts about savepoints for tests, and a plug-in of pytest that gives the savepoint they are about.

::

    from pyspark_savepoint.testing import assert_restores, assert_schema, assert_state

    def test_the_new_version_restores_it(savepoint_golden):
        assert_state(savepoint_golden, "accounts", "total", {1042: 68520})
        assert_schema(savepoint_golden, "golden/schema.json")
        assert_restores(savepoint_golden, job, flink_version="2.3")
"""

from __future__ import annotations

from pyspark_savepoint.testing.asserts import assert_restores, assert_schema, assert_state, assert_verdict

__all__ = ["assert_restores", "assert_schema", "assert_state", "assert_verdict"]
