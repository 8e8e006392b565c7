"""Raw reads and writes of a store by obstore, in a process of its own: ``python -m tests.benchmarks.raw_transfers``.

Standard input has JSON: the endpoint, whether it is Azure's, lists of ranges (key, start, end) of which one is read
after the other, and objects to write (key, bytes). 32 requests run at a time.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from obstore.store import S3Store

from tests.remote.measured_azure import container
from tests.remote.storage import CREDENTIALS


def bucket(endpoint: str) -> S3Store:
    """A client of the bucket."""
    return S3Store(
        "bucket",
        endpoint=endpoint,
        region=CREDENTIALS["AWS_REGION"],
        access_key_id="test",
        secret_access_key="test",
        client_options={"allow_http": True},
    )


if __name__ == "__main__":
    given = json.load(sys.stdin)
    client = (container if given["is_azure"] else bucket)(given["endpoint"])
    with ThreadPoolExecutor(32) as pool:
        for ranges in given["ranges"]:
            list(pool.map(lambda one: client.get_range(one[0], start=one[1], end=one[2]), ranges))
        list(pool.map(lambda one: client.put(one[0], bytes(one[1]), use_multipart=False), given["sent"]))
