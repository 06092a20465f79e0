"""Cross approximation: a tensor train through few values of a function of many variables.

On a grid of nodes the function is a tensor f(i_1, ..., i_D) (the last index is the output). At every bond k there are
r_k left indices I_k (prefixes) and right indices J_k (suffixes), and with P_k = f(I_k, J_k)

    f(i_1, ..., i_D)  ~  T_1(i_1) P_1^-1 T_2(i_2) P_2^-1 ... T_D(i_D),      T_k(i) = f(I_k-1, i, J_k),

which is exact on the crosses. Ranks grow where they must: at a bond, one column (rows I_k-1 x i_k, a suffix that does
badly at random entries) is asked for, the row of its largest residual joins I_k, the suffix joins J_k, and the row,
which T_k+1 needs anyhow, shows the next column. Since prefixes are made of prefixes and suffixes of suffixes, nothing
that was asked is wasted. A point at which the train does badly although no bond does becomes a pivot of all bonds at
once; pivots whose Schur complement is no longer worth anything are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.approximation.train.axes import Axis, coefficients_of
from softwright.approximation.train.sampler import Index, Sampler
from softwright.chunks import rows_within
from softwright.work import count

_PROBES = 10  # entries at random that a bond is asked for


@dataclass(frozen=True)
class Train:
    """Cores (r, nodes, r') in Chebyshev coefficients along the chain, and the readout (r, m)."""

    axes: tuple[Axis, ...]
    order: tuple[int, ...]
    cores: tuple[np.ndarray, ...]
    read: np.ndarray

    @property
    def ranks(self) -> list[int]:
        return [core.shape[2] for core in self.cores]

    def __call__(self, t: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, m)"""
        widest = max(core.shape[0] * core.shape[1] for core in self.cores)
        step = rows_within(8 * 3 * widest)
        parts = [self._values(t[start : start + step]) for start in range(0, max(len(t), 1), step)]
        return np.concatenate(parts)

    def _values(self, t: np.ndarray) -> np.ndarray:
        state = np.ones((len(t), 1))
        for axis, variable, core in zip(self.axes, self.order, self.cores, strict=True):
            r, n, out = core.shape
            mixed = (state[:, :, None] * axis.columns(t[:, variable])[:, None, :]).reshape(len(t), r * n)
            state = mixed @ core.reshape(r * n, out)
            count(2 * len(t) * r * n * out)
        return state @ self.read


class Cross:
    """The index sets of a train under way."""

    def __init__(self, sampler: Sampler, outputs: int, start: Index, rng: np.random.Generator) -> None:
        self.sampler, self.outputs, self.rng = sampler, outputs, rng
        self.sets = [([start[:k]], [start[k:]]) for k in range(1, self.length)]  # bond k: (I_k, J_k)

    @property
    def length(self) -> int:
        return len(self.sampler.axes) + 1

    @property
    def ranks(self) -> list[int]:
        return [len(left) for left, _ in self.sets]

    def nodes(self, place: int) -> int:
        return self.outputs if place == self.length - 1 else self.sampler.axes[place].nodes

    def left(self, bond: int) -> list[Index]:
        return [()] if bond == 0 else self.sets[bond - 1][0]

    def right(self, bond: int) -> list[Index]:
        return [()] if bond == self.length else self.sets[bond - 1][1]

    def rows(self, bond: int) -> list[Index]:
        """Prefixes of length `bond`, the places before it free."""
        return [(*head, i) for head in self.left(bond - 1) for i in range(self.nodes(bond - 1))]

    def columns(self, bond: int) -> list[Index]:
        return [(i, *tail) for i in range(self.nodes(bond)) for tail in self.right(bond + 1)]

    def block(self, rows: list[Index], columns: list[Index]) -> np.ndarray:
        return self.sampler([(*a, *b) for a in rows for b in columns]).reshape(len(rows), len(columns))

    def sweep(self, small: float) -> bool:
        """One pivot or a few more at every bond whose residual is above `small`; whether there was one."""
        grown = False
        for bond in range(1, self.length):
            grown |= self._grow(bond, small)
        return grown

    def _grow(self, bond: int, small: float) -> bool:
        rows, columns = self.rows(bond), self.columns(bond)
        left, right = self.sets[bond - 1]
        across, down = self.block(rows, right), self.block(left, columns)  # f(rows, J), f(I, columns)
        solved = _over(across, self.block(left, right))
        a = self.rng.integers(len(rows), size=_PROBES)
        b = self.rng.integers(len(columns), size=_PROBES)
        asked = self.sampler([(*rows[i], *columns[j]) for i, j in zip(a, b, strict=True)])
        off = np.abs(asked - (solved[a] * down[:, b].T).sum(axis=1))
        if off.max() <= small:
            return False
        column, grown = int(b[off.argmax()]), False
        most = min(len(rows), len(columns))
        for _ in range(max(2, len(left) // 2)):
            if len(left) >= most:
                break
            values = self.block(rows, [columns[column]])[:, 0]
            residual = values - solved @ down[:, column]
            row = int(np.abs(residual).argmax())
            if abs(residual[row]) <= small:
                break
            along = self.block([rows[row]], columns)[0]
            others = np.abs(along - solved[row] @ down)
            left.append(rows[row])
            right.append(columns[column])
            grown = True
            others[column] = 0.0
            down, across = np.vstack([down, along]), np.column_stack([across, values])
            solved = _over(across, self.block(left, right))
            column = int(others.argmax())  # of the row that was worst, the next worst place
            if others[column] <= small:
                break
        return grown

    def join(self, index: Index) -> None:
        """A pivot for all bonds; prefixes and suffixes that are there already are not doubled."""
        for bond, (left, right) in enumerate(self.sets, 1):
            if index[:bond] not in left and index[bond:] not in right:
                left.append(index[:bond])
                right.append(index[bond:])

    def prune(self, small: float) -> None:
        """Drop pivots whose Schur complement, in the order of their sizes, is below `small`."""
        for bond, (left, right) in enumerate(self.sets, 1):
            rest = self.block(left, right)
            kept_rows: list[int] = []
            kept_columns: list[int] = []
            for _ in range(len(left)):
                i, j = np.unravel_index(np.abs(rest).argmax(), rest.shape)
                if kept_rows and abs(rest[i, j]) <= small:
                    break
                if rest[i, j] == 0:
                    kept_rows, kept_columns = kept_rows or [0], kept_columns or [0]
                    break
                kept_rows.append(int(i))
                kept_columns.append(int(j))
                rest = rest - np.outer(rest[:, j], rest[i]) / rest[i, j]
            self.sets[bond - 1] = ([left[i] for i in kept_rows], [right[j] for j in kept_columns])

    def fibres(self, place: int) -> np.ndarray:
        """T of a place: (r, nodes, r')"""
        left, right, n = self.left(place), self.right(place + 1), self.nodes(place)
        indices = [(*head, i, *tail) for head in left for i in range(n) for tail in right]
        return self.sampler(indices).reshape(len(left), n, len(right))

    def train(self) -> Train:
        cores = []
        for place in range(self.length):
            core = self.fibres(place)
            r, n, out = core.shape
            if place < self.length - 1:
                middle = self.block(*self.sets[place])
                core = _over(core.reshape(r * n, out), middle).reshape(r, n, out)
                core = np.einsum("cn,anb->acb", coefficients_of(n), core)
            cores.append(core)
        axes = tuple(self.sampler.axes)
        return Train(axes, self.sampler.order, tuple(cores[:-1]), cores[-1][:, :, 0])

    def coarse(self, small: float) -> list[int]:
        """Places whose values along their axis are no polynomial of that degree yet: their last coefficients count."""
        found = []
        for place in range(self.length - 1):
            core = self.fibres(place)
            n = core.shape[1]
            sizes = np.abs(np.einsum("cn,anb->acb", coefficients_of(n), core)).max(axis=(0, 2))
            if sizes[-2:].max() > small:
                found.append(place)
        return found


def _over(block: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """block P^-1"""
    count(4 * len(block) * len(middle) ** 2)
    return np.linalg.lstsq(middle.T, block.T, rcond=1e-14)[0].T
