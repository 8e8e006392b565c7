"""Registry of the tables that analyse operator state, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.surveys.heaviest_keys import SCHEMA as HEAVIEST_KEYS
from pyspark_savepoint.statebackends.surveys.heaviest_keys import plan_heaviest_keys
from pyspark_savepoint.statebackends.surveys.sizes import SCHEMA as SIZES
from pyspark_savepoint.statebackends.surveys.sizes import plan_sizes
from pyspark_savepoint.statebackends.surveys.survey import Plan, SurveyTable
from pyspark_savepoint.statebackends.surveys.ttl_ages import SCHEMA as TTL_AGES
from pyspark_savepoint.statebackends.surveys.ttl_ages import plan_ttl_ages
from pyspark_savepoint.statebackends.surveys.verification import SCHEMA as VERIFICATION
from pyspark_savepoint.statebackends.surveys.verification import plan_verification

SURVEYS: Mapping[str, tuple[Plan, pa.Schema]] = MappingProxyType(
    {
        "sizes": (plan_sizes, SIZES),
        "heaviest_keys": (plan_heaviest_keys, HEAVIEST_KEYS),
        "ttl_ages": (plan_ttl_ages, TTL_AGES),
        "verification": (plan_verification, VERIFICATION),
    }
)


def survey(request: TableRequest, name: str) -> SurveyTable:
    """Return the table of a name, for the operator that the request names or for all."""
    return SurveyTable.of(request, *SURVEYS[name])
