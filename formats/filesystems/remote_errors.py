"""Classification of errors of object stores and HDFS, whose clients report the cause only as text.

Hadoop distinguishes the same cases: ``S3AUtils.translateException`` and similar.
"""

from __future__ import annotations

import re

import pyarrow as pa

from pyspark_savepoint.formats.errors import (
    MISSING,
    AccessDeniedError,
    CorruptStateError,
    SavepointError,
    StateFileNotFoundError,
    StorageError,
)
from pyspark_savepoint.formats.redaction import elide, redact

IN_ENVIRONMENT = (
    "set them in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_KEY and the like; "
    "for executors spark.executorEnv.NAME), or give the machines a role"
)

#: Exceptions of the clients, including those that are not derived from OSError.
CLIENT_ERRORS: tuple[type[Exception], ...] = (OSError, pa.ArrowException)
MISSING_BUCKET = re.compile(
    r"NO_SUCH_BUCKET|Bucket '[^']*' not found|ContainerNotFound|specified (bucket|container) does not exist", re.I
)
MEANINGS: tuple[tuple[re.Pattern[str], type[SavepointError], str, str], ...] = (
    (
        re.compile(r"libhdfs|libjvm"),
        StorageError,
        "HDFS is reached through libhdfs, which is not on this machine",
        "install a Hadoop client on driver and executors, and set JAVA_HOME, HADOOP_HOME (or ARROW_LIBHDFS_DIR) and "
        "CLASSPATH=$(hadoop classpath --glob)",
    ),
    (
        MISSING_BUCKET,
        StateFileNotFoundError,
        "there is no such bucket or container",
        "check its name; to use an endpoint other than the cloud's own, set AWS_ENDPOINT_URL or the like in the "
        "environment, or endpoint in option 'storageOptions'",
    ),
    (
        re.compile(
            r"PERMANENT_REDIRECT|PermanentRedirect|status(?: code:)? 301|AUTHORIZATION_HEADER_MALFORMED", re.IGNORECASE
        ),
        StorageError,
        "the bucket is in another region",
        "set its region: AWS_REGION in the environment, or region in option 'storageOptions'",
    ),
    (
        re.compile(r"Check for Hierarchical Namespace support(?!.*Fail to get a new connection)"),
        AccessDeniedError,
        "access is denied to the check whether the account has a hierarchical namespace, which writes need",
        "give the shared access signature the permissions r, a, c, w, d, l and e (execute)",
    ),
    (
        re.compile(
            r"ACCESS_DENIED|AccessDenied|status(?: code:)? 40[13]|PERMISSION_DENIED|UNAUTHENTICATED|Permission denied"
            r"|AccessControl|Authorization|AuthenticationFailed|INVALID_ACCESS_KEY|InvalidAccessKey|SIGNATURE_DOES_NOT_MATCH"
            r"|SignatureDoesNotMatch|TOKEN|credential",
            re.IGNORECASE,
        ),
        AccessDeniedError,
        "the storage denies access",
        "this process has no credentials, or they lack a permission: " + IN_ENVIRONMENT,
    ),
    (
        re.compile(r"NO_SUCH_KEY|NoSuchKey|status(?: code:)? 404|BlobNotFound|NOT_FOUND|PathNotFound", re.IGNORECASE),
        StateFileNotFoundError,
        "a file of the snapshot is missing",
        MISSING,
    ),
    (
        re.compile(r"status(?: code:)? 416|InvalidRange|INVALID_RANGE", re.IGNORECASE),
        CorruptStateError,
        "the file is shorter than it was when it was opened",
        "it was replaced while it was read: read the snapshot again",
    ),
    (
        re.compile(r"SSL (?:connect|peer|certificate|routines)|TLS connect|peer certificate", re.IGNORECASE),
        StorageError,
        "the TLS connection to the storage fails",
        "check the endpoint: http:// if the storage has no TLS, else a host that its certificate names; give the file "
        "of a private certificate authority in AWS_CA_BUNDLE, or as caFile in option 'storageOptions' (S3)",
    ),
    (
        re.compile(r"resolve host|name resolution|dns error|invalid dns label", re.IGNORECASE),
        StorageError,
        "the host name of the storage cannot be resolved",
        "check the host in the endpoint, the bucket and region (S3) or the account (Azure), and this machine's DNS",
    ),
    (
        re.compile(r"NETWORK_CONNECTION|curl|could not connect|connection refused|timed? ?out|resolve", re.IGNORECASE),
        StorageError,
        "the storage does not answer",
        "check the endpoint (http or https, host, port), and that this machine reaches it; for slow storage raise "
        "requestTimeout and maxAttempts (S3) or retryLimit (GCS) in option 'storageOptions'",
    ),
    (
        re.compile(
            r"status(?: code:)? 5\d\d|SLOW_DOWN|SlowDown|INTERNAL|SERVICE_UNAVAILABLE|UNAVAILABLE|THROTTL",
            re.IGNORECASE,
        ),
        StorageError,
        "the storage answers with errors, after retries too",
        "try later, or with fewer tasks at a time; "
        "maxAttempts (S3) or retryLimit (GCS) in option 'storageOptions' allows more retries",
    ),
)
MAX_TEXT = 400


def storage_error(error: Exception, path: str) -> SavepointError:
    """Return the SavepointError for a client's error, and remove secrets from both."""
    whole = redact(" ".join(str(error).split()))
    text = elide(whole, MAX_TEXT)
    error.args = (text,)
    if isinstance(error, OSError):
        del error.filename, error.strerror
    if isinstance(error, FileNotFoundError):
        return StateFileNotFoundError("a file of the snapshot is missing", path=path, remedy=MISSING)
    for pattern, kind, message, remedy in MEANINGS:
        if pattern.search(whole):
            # The loader of libraries lists every folder that it has tried.
            return kind(message, path=path, found=text.partition(" dlopen(")[0], remedy=remedy)
    kind = AccessDeniedError if isinstance(error, PermissionError) else StorageError
    return kind("the storage cannot be read", path=path, found=text)
