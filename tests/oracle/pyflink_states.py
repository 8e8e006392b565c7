"""The PyFlink job of `tests/data`, `real/pyf-120`: states of every type, timers, windows; run by PyFlink's own Python.

    python pyflink_states.py OUT

It ends with a canonical savepoint in ``OUT/sp``. PyFlink 1.20.5 wrote the one of the data set, with RocksDB.
"""

import datetime
import decimal
import sys
import time
from pathlib import Path

from pyflink.common import Configuration, Instant, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway

OUT = Path(sys.argv[1]).resolve()
OUT.mkdir(parents=True, exist_ok=True)
ELEMENTS = 300
#: Keyed functions append to it when they have had the last element.
LAST = OUT / "last"
OPTIONS = {
    "state.backend.type": "rocksdb", "python.execution-mode": "process", "python.executable": sys.executable,
    "python.client.executable": sys.executable, "rest.port": "0", "rest.bind-port": "0",
    "state.checkpoints.dir": f"file://{OUT}/chk", "python.fn-execution.bundle.time": "200",
    "python.fn-execution.bundle.size": "5", "python.state.cache-size": "10", "restart-strategy.type": "none",
    "taskmanager.memory.managed.size": "256m", "taskmanager.memory.task.off-heap.size": "80m",
    "taskmanager.numberOfTaskSlots": "2", "python.fn-execution.memory.managed": "false", "parallelism.default": "1",
    "execution.attached": "false",
}  # fmt: skip
ROW = Types.ROW_NAMED(
    ["id", "name", "score", "at", "dec"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()],
)
PAIR = Types.TUPLE([Types.INT(), Types.STRING()])
SUM_AND_COUNT = Types.TUPLE([Types.LONG(), Types.LONG()])
VALUES = {
    "v_long": Types.LONG(), "v_string": Types.STRING(), "v_pickled": Types.PICKLED_BYTE_ARRAY(),
    "v_custom": Types.PICKLED_BYTE_ARRAY(), "v_row": ROW, "v_list": Types.LIST(Types.STRING()),
    "v_tuple": Types.TUPLE([Types.INT(), Types.STRING(), Types.BOOLEAN()]), "v_instant": Types.INSTANT(),
    "v_map": Types.MAP(Types.STRING(), Types.INT()), "v_date": Types.SQL_DATE(),
    "v_bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
}  # fmt: skip


class Average(AggregateFunction):
    """Sum and count of the first fields."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[0], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, first, second):
        return first[0] + second[0], first[1] + second[1]


class Custom:
    """An object that is pickled."""

    def __init__(self, i):
        self.i = i
        self.d = {"x": i}


class EveryState(KeyedProcessFunction):
    """A state of each kind and type; what is in it follows from the last element of the key."""

    def open(self, context):
        self.values = {name: context.get_state(ValueStateDescriptor(name, kind)) for name, kind in VALUES.items()}
        pickled = Types.PICKLED_BYTE_ARRAY()
        self.list = context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.pickled = context.get_list_state(ListStateDescriptor("list_pickled", pickled))
        self.map = context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        rows = Types.ROW([Types.LONG(), Types.STRING()])
        key = Types.TUPLE([Types.STRING(), Types.INT()])
        self.rows = context.get_map_state(MapStateDescriptor("map_row", key, rows))
        self.sum = context.get_reducing_state(ReducingStateDescriptor("red", lambda a, b: a + b, Types.LONG()))
        self.average = context.get_aggregating_state(AggregatingStateDescriptor("agg", Average(), SUM_AND_COUNT))
        ttl = ValueStateDescriptor("v_ttl", Types.LONG())
        ttl.enable_time_to_live(StateTtlConfig.new_builder(Time.days(30)).build())
        self.ttl = context.get_state(ttl)

    def process_element(self, element, context):
        i = element[0]
        at = datetime.datetime(2020, 1, 1, 0, 0, i % 60)
        pickled = {
            "i": i, "l": [1, "x", None, 2.5, True], "t": (i, "y"), "n": {"a": {1: 2}}, "d": at,
            "dec": decimal.Decimal("1.5"), "b": b"\x00\x01", "big": i * 10**20,
        }  # fmt: skip
        wanted = {
            "v_long": (self.values["v_long"].value() or 0) + i, "v_string": f"s{i}\u00e9\u6f22", "v_pickled": pickled,
            "v_custom": Custom(i), "v_tuple": (i, f"t{i}", i % 2 == 0), "v_list": [f"a{i}", "b"],
            "v_row": Row(i, f"n{i}", i / 2, at.replace(microsecond=123000), decimal.Decimal(f"{i}.25")),
            "v_map": {f"k{i}": i}, "v_date": datetime.date(2020, 1, 1 + i % 28),
            "v_instant": Instant(1600000000 + i, 5000), "v_bytes": bytes([i % 256, 1]),
        }  # fmt: skip
        for name, value in wanted.items():
            self.values[name].update(value)
        self.list.add(i)
        self.pickled.add({"e": i})
        self.map.put(f"m{i % 5}", i)
        self.rows.put(("a", i % 3), Row(i, f"r{i}"))
        self.sum.add(i)
        self.average.add((i,))
        self.ttl.update(i)
        context.timer_service().register_event_time_timer(5_000_000_000_000 + i)
        context.timer_service().register_processing_time_timer(6_000_000_000_000 + i % 10)
        if i == ELEMENTS - 1:
            with LAST.open("a") as file:
                file.write("x")
        yield i


class Windowed(ProcessWindowFunction):
    """Keeps all elements of a window."""

    def process(self, key, context, elements):
        yield str(key)

    def clear(self, context):
        pass


class Seconds(TimestampAssigner):
    """The first field is the time."""

    def extract_timestamp(self, value, timestamp):
        return value[0] * 1000


class Slowly(MapFunction):
    """Keeps the job alive when the elements have ended."""

    def map(self, value):
        time.sleep(0.1)
        return -1, "hold"


configuration = Configuration()
for option, text in OPTIONS.items():
    configuration.set_string(option, text)
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(1)
env.set_max_parallelism(128)
elements = env.from_collection([(i, f"k{i % 20}") for i in range(ELEMENTS)], type_info=PAIR)
endless = env.from_source(
    NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "hold", type_info=Types.LONG()
)
both = elements.union(endless.map(Slowly(), PAIR).filter(lambda _: False)).assign_timestamps_and_watermarks(
    WatermarkStrategy.no_watermarks().with_timestamp_assigner(Seconds())
)
by_text = both.key_by(lambda value: value[1], Types.STRING())
keyed = {
    "py-string": by_text,
    "py-pickled-key": both.key_by(lambda value: (value[0] % 10, "z")),
    "py-tuple-key": both.key_by(lambda value: (value[0] % 10, value[1]), PAIR),
}
for uid, stream in keyed.items():
    stream.process(EveryState(), Types.LONG()).uid(uid).name(uid)
tumbling = TumblingEventTimeWindows.of(Time.minutes(10))
sessions = EventTimeSessionWindows.with_gap(Time.seconds(25))
windows = {
    "py-reduce": by_text.window(tumbling).reduce(lambda a, b: (a[0] + b[0], a[1])),
    "py-session": by_text.window(sessions).process(Windowed(), Types.STRING()),
    "py-agg": by_text.window(tumbling).aggregate(Average(), accumulator_type=SUM_AND_COUNT, output_type=Types.DOUBLE()),
}
for uid, stream in windows.items():
    stream.uid(uid).name(uid)
client = env.execute_async("states")
limit = time.monotonic() + 420
while not LAST.exists() or len(LAST.read_text()) < len(keyed):
    if time.monotonic() > limit:
        sys.exit("the elements were not processed in time")
    time.sleep(1)
time.sleep(4)  # windows have their elements then
canonical = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
print(client._j_job_client.triggerSavepoint(f"file://{OUT}/sp", canonical).get())
client.cancel().result()
