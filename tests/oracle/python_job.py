"""A PyFlink job that restores a savepoint and writes as JSON what it has of every key: run by PyFlink's own Python."""

import json
import sys

from pyflink.common import Configuration, Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

SAVEPOINT, OUT = sys.argv[1:3]
ROW = Types.ROW_NAMED(
    ["id", "name", "score", "at", "dec"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()],
)
OPTIONS = {
    "state.backend.type": "hashmap", "python.executable": sys.executable, "python.client.executable": sys.executable,
    "rest.port": "0", "rest.bind-port": "0", "execution.savepoint.path": f"file://{SAVEPOINT}",
    "execution.savepoint.ignore-unclaimed-state": "true", "taskmanager.memory.managed.size": "128m",
    "python.fn-execution.memory.managed": "false", "taskmanager.memory.task.off-heap.size": "80m",
    "restart-strategy.type": "none", "parallelism.default": "1",
}  # fmt: skip


def note(**found):
    with open(OUT, "a") as file:
        file.write(json.dumps(found) + "\n")


class Restored(KeyedProcessFunction):
    """Reads the states that the job had."""

    def open(self, context):
        def value(name, kind):
            return context.get_state(ValueStateDescriptor(name, kind))

        self.long, self.string = value("v_long", Types.LONG()), value("v_string", Types.STRING())
        self.pickled, self.row = value("v_pickled", Types.PICKLED_BYTE_ARRAY()), value("v_row", ROW)
        self.tuple = value("v_tuple", Types.TUPLE([Types.INT(), Types.STRING(), Types.BOOLEAN()]))
        self.strings = value("v_list", Types.LIST(Types.STRING()))
        self.list = context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.sum = context.get_reducing_state(ReducingStateDescriptor("red", lambda a, b: a + b, Types.LONG()))
        ttl = ValueStateDescriptor("v_ttl", Types.LONG())
        ttl.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36500)).build())
        self.ttl = context.get_state(ttl)

    def process_element(self, element, context):
        row = self.row.value()
        if row is None:
            left = [self.long, self.string, self.pickled, self.tuple, self.strings, self.sum]
            kept = [state for state in left if (state.get() if state is self.sum else state.value()) is not None]
            note(key=context.get_current_key(), nothing=not (kept or list(self.list.get()) or dict(self.map.items())))
            return
        note(
            key=context.get_current_key(), v_long=self.long.value(), v_string=self.string.value(),
            v_pickled=self.pickled.value()["i"], v_row=f"Row(id={row.id}, name={row.name!r}, dec={row.dec})",
            v_tuple=self.tuple.value(), v_list=self.strings.value(), list=list(self.list.get()), red=self.sum.get(),
            map=dict(self.map.items()), v_ttl=self.ttl.value(),
        )  # fmt: skip
        yield 0

    def on_timer(self, timestamp, context):
        note(key=context.get_current_key(), timer=timestamp)
        yield 0


configuration = Configuration()
for name, text in OPTIONS.items():
    configuration.set_string(name, text)
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(1)
env.set_max_parallelism(128)
pair = Types.TUPLE([Types.INT(), Types.STRING()])
elements = env.from_collection([(i, f"k{i}") for i in range(21)], type_info=pair)
keyed = {
    "py-string": elements.key_by(lambda e: e[1], Types.STRING()),
    "py-pickled-key": elements.key_by(lambda e: (e[0] if e[0] > 19 else e[0] % 10, "z")),
    "py-tuple-key": elements.key_by(lambda e: (e[0] % 10, e[1]), pair),
}
for uid, stream in keyed.items():
    stream.process(Restored(), Types.LONG()).uid(uid)
env.execute("restored")
