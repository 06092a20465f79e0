"""The heads of programs, one method each: what it writes, and what the column then holds, by the lemma of its kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from softwright.programs.columns import MOST_DEFAULTS, Board, Column, Form, Head
from softwright.programs.lemmas import PENALTY, above, ball
from softwright.programs.reals.roots import mean_root, sum_root

LARGEST_TABLE = 2048
SMALL_TABLE = 128  # larger whole numbers are found digit by digit
MOST_GROUPS = 32
NEAR = Fraction(2, 5)  # a whole number that is known so well can be restored
SHARPNESS = (64, 128, 256)  # of tables
WHOLE_STEP = 32  # score of a whole step, where the largest whole number is looked for


class NotPossible(Exception):
    """A head whose lemma does not give what is needed; the text says why and what helps."""


class TooLarge(NotPossible):
    """A function of more whole numbers than one table takes; it may have a form of smaller ones."""


class Wanted:
    """A column that a table is to write: what it holds, and its value at every whole number of the table."""

    def __init__(self, name: str, holds: list[Any], value: Callable[[int], Fraction], exact: bool = True) -> None:
        self.name, self.holds, self.value, self.exact = name, holds, value, exact


class Heads:
    """Makes heads on a board."""

    def __init__(self, board: Board) -> None:
        self.board = board

    # ---------------------------------------------------------------------------------------------------- bank tokens

    def table(self, number: Form, low: int, high: int, wanted: Sequence[Wanted], text: str) -> list[Column]:
        """Columns that hold functions of a whole number from low to high, which a form is near to."""
        board, count = self.board, high - low + 1
        if count > LARGEST_TABLE:
            raise NotPossible(f"{count} different numbers are more than the {LARGEST_TABLE} of a table")
        middle = (count - 1) // 2
        query = number - (low + middle)
        eta = board.run_error(query)
        values = [[want.value(k) for k in range(low, high + 1)] for want in wanted]
        for sharpness in SHARPNESS:
            leaks = board.arithmetic.table_leak(eta, count, sharpness)
            if leaks is not None and all(
                board.arithmetic.absorbs(min(map(abs, row)), max(map(abs, row)), leaks)
                for want, row in zip(wanted, values, strict=True)
                if want.exact
            ):
                break
        else:
            raise NotPossible(f"a whole number is known to {float(eta):.2g} only; use float64 or shorter sequences")
        return self._bank_head("table", query, wanted, values, leaks, sharpness, {"middle": middle}, text, low)

    def digit(self, number: Form, low: int, high: int, base: int, wanted: Sequence[Wanted], text: str) -> list[Column]:
        """The same of the digit floor((number - low) / base)."""
        board, count = self.board, (high - low) // base + 1
        middle = (count - 1) // 2
        query = number - low + Fraction(1, 2) - base * (middle + Fraction(1, 2))
        eta = board.run_error(query)
        values = [[want.value(k) for k in range(count)] for want in wanted]
        for sharpness in SHARPNESS:
            leaks = board.arithmetic.digit_leak(eta, count, base, sharpness)
            if leaks is not None and all(
                board.arithmetic.absorbs(min(map(abs, row)), max(map(abs, row)), leaks) for row in values
            ):
                break
        else:
            raise NotPossible(f"a whole number is known to {float(eta):.2g} only; use float64 or shorter sequences")
        more = {"middle": middle, "base": base}
        return self._bank_head("digit", query, wanted, values, leaks, sharpness, more, text, 0)

    def _bank_head(
        self,
        kind: str,
        query: Form,
        wanted: Sequence[Wanted],
        values: list[list[Fraction]],
        leaks: Fraction,
        sharpness: int,
        numbers: dict[str, Any],
        text: str,
        low: int,
    ) -> list[Column]:
        board, layer = self.board, self.board.layer_of(query) + 1
        board.bank(len(values[0]))
        made: list[Column] = []
        for want, row in zip(wanted, values, strict=True):
            held = [board.stored(value) for value in row]
            error = Fraction(0)
            if not want.exact:
                most = max(*map(abs, row), *map(abs, held))
                if not board.arithmetic.absorbs(min(map(abs, held)), max(map(abs, held)), leaks):  # no copy to the bit
                    error = 2 * leaks * most * 2 + board.arithmetic.gamma(8) * most
                error += max(abs(a - b) for a, b in zip(held, row, strict=True))
            made.append(
                board.column(
                    want.name,
                    want.holds,
                    min(row),
                    max(row),
                    exact=want.exact,
                    layer=layer,
                    error=error,
                    rows=held,
                )
            )
        board.heads.append(
            Head(
                kind,
                layer,
                writes=[(column.number, Fraction(1)) for column in made],
                values=[Form.of(0, {column.number: Fraction(1)}) for column in made],
                query=query,
                numbers={"sharpness": sharpness, "count": len(values[0]), "low": low, **numbers},
                text=text,
            )
        )
        return made

    # --------------------------------------------------------------------------------------------------- masked heads

    def _layer(self, where: Sequence[list[Any]], *forms: Form) -> int:
        used = [*(k for factor in where for k in _columns_of(factor))]
        return max([self.board.layer_of(*forms), *(self.board.columns[k].layer for k in used)]) + 1

    def mean(
        self,
        value: Form,
        where: list[list[Any]],
        causal: bool,
        name: str,
        holds: list[Any],
        ends: tuple[Fraction, Fraction],
        default: Fraction | None = None,
        exact: bool = False,
    ) -> Column:
        """The mean over matching tokens, the default where there are none; `exact`: there is at most one."""
        board, layer = self.board, self._layer(where, value)
        low, high = (min(ends[0], default), max(ends[1], default)) if default is not None else ends
        largest, error = max(abs(low), abs(high)), board.run_error(value)
        if exact:
            good = error == 0 and low >= 1 and board.arithmetic.pick_is_exact(low, high)
            if not good:
                raise NotPossible("a whole number is too large to be picked exactly; use float64")
        else:
            error = board.arithmetic.mean(largest, error) + board.stray(value)
        column = board.column(name, holds, low, high, exact=exact, layer=layer, error=error)
        if not exact and default is None:
            leaks = 2 * (board.arithmetic.tokens + 1) * board.arithmetic.leak(PENALTY) * (largest + error)
            column.root = mean_root(board, value, leaks + board.stray(value))
        read = value
        if default is not None:
            if sum(other.default is not None for other in board.columns) >= MOST_DEFAULTS:
                raise NotPossible(f"more than {MOST_DEFAULTS} defaults; use fewer shifts")
            board.defaulted(column, default)
            column.error += abs(board.stored(default) - default)
            read = value + Form.of(0, {column.number: Fraction(1)})
        board.heads.append(Head("mean", layer, [(column.number, Fraction(1))], [read], where, causal, text=name))
        return column

    def sum(
        self,
        value: Form,
        monomials: Sequence[tuple[int, list[list[Any]], bool]],
        total: int,
        name: str,
        holds: list[Any],
        ends: tuple[Fraction, Fraction],
        group_columns: Sequence[int],
        needed: Fraction,
    ) -> Column:
        """The sum over tokens of signed conditions, which all together match at most `total` tokens; more heads than
        one where n equal terms would round too much."""
        board = self.board
        arithmetic, height = board.arithmetic, board.arithmetic.height()
        outer = board.stored(above(ball(height).exp()))
        size, own = board.size(value), board.run_error(value)
        tried: list[Fraction] = []
        for groups in range(int(math.log2(min(MOST_GROUPS, board.longest))) + 1):
            heads, terms = len(monomials) * 2**groups, -(-board.longest // 2**groups)
            rho, lost = arithmetic.sum(terms, outer, height)
            error = total * ((size + own) * rho + own) + heads * (size + own) * lost
            error += heads * board.stray(value, outer)
            error += arithmetic.gamma(heads + 4) * (total * (size + own) + error)
            tried.append(error)
            if error <= needed:
                break
        enough = max(needed, min(tried) * Fraction(5, 4))  # more heads would hardly help
        groups = next(k for k, error in enumerate(tried) if error <= enough)
        error = tried[groups]
        layer = max(self._layer(where, value) for _, where, _ in monomials)
        column = board.column(name, holds, *ends, exact=False, layer=layer, error=error)
        if all(sign == 1 for sign, _, _ in monomials):  # no token is counted twice, or taken off
            heads = len(monomials) * 2**groups
            rho, lost = arithmetic.sum(-(-board.longest // 2**groups), outer, height)
            leaks = heads * ((size + own) * lost + board.stray(value, outer)) * 2
            column.root = sum_root(board, value, board.longest, rho + arithmetic.gamma(heads + 4) * (1 + rho), leaks)
        for sign, where, causal in monomials:
            for group in range(2**groups):
                low_bits = [["flag", "j", group_columns[b], 1 if not (group >> b) & 1 else -1] for b in range(groups)]
                board.heads.append(
                    Head(
                        "sum",
                        layer,
                        [(column.number, sign * outer)],
                        [value],
                        [*where, *low_bits],
                        causal,
                        numbers={"height": height, "groups": groups},
                        text=name,
                    )
                )
        return column

    # ----------------------------------------------------------------------------------------------------- soft heads

    def largest(
        self,
        value: Form,
        sharpness: Fraction,
        where: list[list[Any]],
        causal: bool,
        name: str,
        holds: list[Any],
        ends: tuple[Fraction, Fraction],
        sign: int,
    ) -> Column:
        """The largest value (sign 1) or the smallest (-1) over matching tokens; 0 where there are none."""
        board, layer = self.board, self._layer(where, value)
        query, error = value * (sign * sharpness), board.run_error(value)
        delta = self.score_error(query, where)
        off = board.arithmetic.largest(sharpness, delta)
        size = max(abs(ends[0]), abs(ends[1]))
        off += board.arithmetic.mean(size, error) + board.stray(value)
        column = board.column(name, holds, *ends, exact=False, layer=layer, error=off)
        board.heads.append(
            Head(
                "largest",
                layer,
                [(column.number, Fraction(1))],
                [value],
                where,
                causal,
                query,
                {"sharpness": sharpness, "sign": sign, "penalty": self.penalty(query)},
                name,
            )
        )
        return column

    def penalty(self, query: Form) -> int:
        """What a violated condition must cost so that no score makes up for it: a power of two."""
        most = 4 * self.board.size(query) + 4 * PENALTY
        return 2 ** math.ceil(math.log2(float(most) * 1.01))

    def score_error(self, query: Form, where: Sequence[list[Any]]) -> Fraction:
        """How far the score of a matching token is off, in a run."""
        board = self.board
        spread = 2 * board.size(query) + PENALTY
        dims = sum(len(factor[1]) for factor in where if factor[0] == "equal") + len(where) + 3
        whole = self.penalty(query) * (2 * dims + 2)
        rounding = Fraction(0) if board.is_exact(query) else board.arithmetic.gamma(dims + 3) * (board.size(query) * 2)
        if where and not board.is_exact(query):
            rounding += board.arithmetic.gamma(dims + 3) * whole
        elif where and board.size(query) + whole >= 2 ** (board.precision.digits - 1):
            raise NotPossible("scores are too large for exact whole numbers; use float64 or shorter sequences")
        return board.run_error(query) + rounding + board.arithmetic.weight_error(spread)

    def smooth(self, value: Form, alpha: Fraction, place: Form, name: str, holds: list[Any], ends: Any) -> Column:
        """The causal mean with weights (1 - alpha)^(i - j)."""
        board, layer = self.board, self.board.layer_of(value, place) + 1
        rate_ball = -(1 - ball(alpha)).log()
        rate = board.stored(Fraction(float(rate_ball.mid())))
        off = above(abs(rate_ball - ball(rate))) * board.longest
        query = place * rate
        delta = off + self.score_error(query, [])
        size, error = max(abs(ends[0]), abs(ends[1])), board.run_error(value)
        total = board.stray(value) + board.arithmetic.mean(size, error) + 2 * delta * (ends[1] - ends[0] + 2 * error)
        column = board.column(name, holds, *ends, exact=False, layer=layer, error=total)
        board.heads.append(
            Head("smooth", layer, [(column.number, Fraction(1))], [value], [], True, query, {"rate": rate}, name)
        )
        return column

    def choose(
        self, value: Form, score: Form, margin: Fraction, name: str, holds: list[Any], ends: Any, tol: Fraction
    ) -> Column:
        """The value at the token whose score is largest by at least a margin."""
        board, layer = self.board, self.board.layer_of(value, score) + 1
        spread, error = ends[1] - ends[0], board.run_error(value)
        wanted = math.log(max(float(board.longest * (spread + 1) / tol), 2.0)) + 8
        sharpness = Fraction(2 ** math.ceil(math.log2(wanted / float(margin))))
        query = score * sharpness
        delta = self.score_error(query, [])
        leaks = (board.longest - 1) * above((-ball(sharpness * margin) + 2 * ball(delta)).exp())
        total = board.arithmetic.mean(max(abs(ends[0]), abs(ends[1])), error) + leaks * (spread + 2 * error)
        total += board.stray(value)
        if board.longest > 1 and leaks > Fraction(1, 4):
            raise NotPossible(
                f"scores are known to {float(delta / sharpness):.2g} only; use float64 or a larger margin"
            )
        column = board.column(name, holds, *ends, exact=False, layer=layer, error=total)
        numbers = {"sharpness": sharpness, "margin": margin}
        board.heads.append(
            Head("choose", layer, [(column.number, Fraction(1))], [value], [], False, query, numbers, name)
        )
        return column


def _columns_of(factor: list[Any]) -> list[int]:
    return [*factor[1], *factor[2]] if factor[0] == "equal" else [factor[2]]
