"""What operators of a plan emit, as far as it follows from their state: aggregates their results, others their row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark_savepoint.statebackends.evolution.accumulators import Accumulator, is_count_star
from pyspark_savepoint.statebackends.evolution.expected import operators_of
from pyspark_savepoint.statebackends.evolution.expected_aggregates import accumulator, aggregate_calls
from pyspark_savepoint.statebackends.evolution.plans import AggregateCall, Node, Plan, order_of
from pyspark_savepoint.statebackends.evolution.rewriting.emitted import Emission, Result
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, Order
from pyspark_savepoint.statebackends.evolution.shapes import Layout, OperatorShape, StateShape

AGGREGATES = ("group-aggregate", "global-group-aggregate")
#: Nodes that emit the row that they keep.
OF_ROWS = ("deduplicate", "changelog-normalize")
RANKS = ("rank", "limit", "sort-limit", "window-rank")
KNOWN = ("COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX", "LISTAGG", "FIRST_VALUE", "LAST_VALUE")


def emissions_of(plan: Plan) -> dict[str, Emission]:
    """Return what the operators of a plan emit, by uid: of those of which it is known."""
    return {emission.uid: emission for node in plan.nodes.values() for emission in _emissions(plan, node)}


def _emissions(plan: Plan, node: Node) -> Iterator[Emission]:
    if node.kind not in (*AGGREGATES, *OF_ROWS):
        return
    for shape in operators_of(plan, node):
        if not shape.known:
            continue
        if node.kind in AGGREGATES:
            yield from _of_aggregate(plan, node, shape)
        elif len(shape.states) == 1 and shape.states[0].layout is Layout.ROW:
            yield Emission(shape.uid, shape.states[0])


def _of_aggregate(plan: Plan, node: Node, shape: OperatorShape) -> Iterator[Emission]:
    state, calls, found = shape.state("accState"), aggregate_calls(node), accumulator(plan, node)
    columns, keys = node.output, len(shape.key)
    if state is None or len(columns) != keys + len(calls) or any(call.function not in KNOWN for call in calls):
        return
    places = _places(found)
    results = [Result(column, KEY, (index,)) for index, column in enumerate(columns[:keys])]
    for number, (call, column) in enumerate(zip(calls, columns[keys:], strict=True)):
        counted = call.function == "SUM" and call.retracts
        results.append(Result(column, call.function, places.get(number, ()), counted))
    yield Emission(shape.uid, state, tuple(results), _counter(node, found, calls))


def _places(found: Accumulator) -> Mapping[int, tuple[int, ...]]:
    """Return the places of the fields of each call."""
    places: dict[int, tuple[int, ...]] = {}
    for place, buffer in enumerate(found.buffers):
        if buffer.call is not None:
            places[buffer.call] = (*places.get(buffer.call, ()), place)
    return places


def _counter(node: Node, found: Accumulator, calls: tuple[AggregateCall, ...]) -> int | None:
    """Return the place of the field that counts rows, if rows are also taken out."""
    if not node.attributes.get("needRetraction"):
        return None
    number = next((index for index, call in enumerate(calls) if is_count_star(call)), -1)
    return next((place for place, buffer in enumerate(found.buffers) if buffer.call == number), None)


def orders_of(plan: Plan) -> dict[str, tuple[Order, ...]]:
    """Return the order in which nodes rank rows, by uid."""
    return {
        shape.uid: _order(node) for node in plan.of_kind(*RANKS) for shape in operators_of(plan, node) if shape.known
    }


def _order(node: Node) -> tuple[Order, ...]:
    return tuple(Order(int(one["index"]), bool(one["isAscending"]), bool(one["nullIsLast"])) for one in order_of(node))


def key_places_of(plan: Plan) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return where rows of an input have the key of an operator: by its uid and the number of the input."""
    places: dict[tuple[str, int], tuple[int, ...]] = {}
    for node in plan.nodes.values():
        for shape in operators_of(plan, node):
            for state in shape.states:
                if state.input is not None:
                    places[shape.uid, state.input] = tuple(_key_places(node, shape, state))
    return places


def _key_places(node: Node, shape: OperatorShape, state: StateShape) -> Sequence[int]:
    attributes = node.attributes
    join = attributes.get("joinSpec") or (attributes.get("intervalJoinSpec") or {}).get("joinSpec")
    if join is not None:
        return [int(place) for place in join[("leftKeys", "rightKeys")[state.input or 0]]]
    if "partition" in attributes:
        return [int(place) for place in attributes["partition"]["fields"]]
    if "uniqueKeys" in attributes:
        return [int(place) for place in attributes["uniqueKeys"]]
    names = [column.name for column in state.columns]
    return [names.index(column.name) for column in shape.key if column.name in names]


def view_bits_of(plan: Plan) -> dict[tuple[str, str], int]:
    """Return the number that a value of a set of DISTINCT values has: a bit for each call, by uid and state.

    Calls with filters have it for some values alone, which is not known; rows that are also taken out are counted.
    """
    found: dict[tuple[str, str], int] = {}
    for node in plan.nodes.values():
        for shape in operators_of(plan, node):
            if not any(state.layout is Layout.DISTINCT_VALUES for state in shape.states):
                continue
            calls, found_here = aggregate_calls(node), accumulator(plan, node)
            for number, (_, users) in enumerate(found_here.distinct):
                counted = found_here.counts_by_call(users)
                if not counted and not any(calls[user].filter >= 0 or calls[user].retracts for user in users):
                    found |= dict.fromkeys(
                        ((shape.uid, f"distinctAcc_{number}{end}") for end in ("", "_null_state")),
                        (1 << len(users)) - 1,
                    )
    return found
