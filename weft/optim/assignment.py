"""Rows assigned to columns at the least cost: ``weft.optim.assignment``."""

from __future__ import annotations

import weft
import weft.lax as lax
import weft.numpy as jnp


def hungarian_algorithm(cost_matrix: weft.Array) -> tuple[weft.Array, weft.Array]:
    """The rows and columns of an assignment of least cost, as many as the shorter side.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> costs = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> rows, columns = optim.assignment.hungarian_algorithm(costs)
    >>> float(costs[rows, columns].sum())
    5.0
    """
    rows, columns = cost_matrix.shape
    if rows == 0 or columns == 0:
        return jnp.zeros(0, int), jnp.zeros(0, int)
    chosen = _assign(cost_matrix if rows <= columns else cost_matrix.T)
    if rows == columns:
        order = jnp.argsort(chosen)
        return order, chosen[order]
    order = jnp.arange(chosen.shape[0])[::-1]
    pair = order, chosen[order].astype(jnp.int32)
    return pair if rows < columns else pair[::-1]


def base_hungarian_algorithm(cost_matrix: weft.Array) -> tuple[weft.Array, weft.Array]:
    """As `hungarian_algorithm`, with the pairs in the order of the rows."""
    rows, columns = cost_matrix.shape
    if rows == 0 or columns == 0:
        return jnp.zeros(0, int), jnp.zeros(0, int)
    if rows <= columns:
        return jnp.arange(rows), _assign(cost_matrix)
    chosen = _assign(cost_matrix.T)
    order = jnp.argsort(chosen)
    return chosen[order], order


def _assign(costs):
    """The column of each row, for at least as many columns as rows.

    Shortest augmenting paths (Jonker and Volgenant, 1987): rows come in one after the other; each
    looks for the cheapest way to a free column, over columns whose rows move on. Prices of rows and
    columns keep all reduced costs from being negative.
    """
    costs = costs.astype(float)
    rows, columns = costs.shape
    nobody = jnp.asarray(-1)

    def visit(search, owner, row_price, column_price):
        """Go on from the last column reached; find the cheapest one not yet visited."""
        column, row, distance, way, visited, reached = search
        visited = visited.at[column].set(True, mode="drop")
        through = reached + costs[row] - row_price[row] - column_price
        nearer = ~visited & (through < distance)
        distance = jnp.where(nearer, through, distance)
        way = jnp.where(nearer, row, way)
        open_distance = jnp.where(visited, jnp.inf, distance)
        column = jnp.argmin(open_distance)
        return column, owner[column], distance, way, visited, open_distance[column]

    def add_row(row, state):
        owner, column_of, row_price, column_price = state
        first = (
            jnp.asarray(columns),
            jnp.asarray(row),
            jnp.full(columns, jnp.inf, costs.dtype),
            jnp.full(columns, nobody),
            jnp.zeros(columns, bool),
            jnp.zeros((), costs.dtype),
        )
        first = visit(first, owner, row_price, column_price)
        last = lax.while_loop(
            lambda search: search[1] >= 0,
            lambda search: visit(search, owner, row_price, column_price),
            first,
        )
        column, _, distance, way, visited, reached = last
        slack = jnp.where(visited, reached - distance, 0.0)
        column_price = column_price - slack
        row_price = row_price.at[jnp.where(visited, owner, rows)].add(slack, mode="drop")
        row_price = row_price.at[row].add(reached)

        def take(path):
            column, owner, column_of = path
            mover = way[column]
            before = column_of[mover]
            return before, owner.at[column].set(mover), column_of.at[mover].set(column)

        path = take((column, owner, column_of))
        _, owner, column_of = lax.while_loop(lambda path: path[0] >= 0, take, path)
        return owner, column_of, row_price, column_price

    state = (
        jnp.full(columns, nobody),
        jnp.full(rows, nobody),
        jnp.zeros(rows, costs.dtype),
        jnp.zeros(columns, costs.dtype),
    )
    return lax.fori_loop(0, rows, add_row, state)[1]
