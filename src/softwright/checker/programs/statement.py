"""`prove_program`: a certificate about a program over sequences, proved again from the weights and the text alone.

The text is read by this folder's own parser, and the graph of its meaning must be that of the evidence. Then every
column is shown to hold what its line says, in the order of layers, from columns that are shown already; no sequence is
run.
"""

from __future__ import annotations

from fractions import Fraction

from softwright.checker.precision import precision_of
from softwright.checker.programs.attending import prove_attending
from softwright.checker.programs.bank import check_bank, prove_embedding, prove_lookup
from softwright.checker.programs.bounds import Bounds
from softwright.checker.programs.curves import prove_curve
from softwright.checker.programs.gates import prove_gates
from softwright.checker.programs.graph import SUPPOSED, Meaning
from softwright.checker.programs.graph_core import Graph
from softwright.checker.programs.heads import Read, prove_choice, prove_largest, prove_mean, prove_smooth, prove_sum
from softwright.checker.programs.lines import GATES, STRUCTURE, HeadLine, check_tokens, read_lines
from softwright.checker.programs.pairs.interpolation import prove_line
from softwright.checker.programs.pairs.kernels import prove_kernel
from softwright.checker.programs.pairs.nearest import prove_place
from softwright.checker.programs.pairs.order import prove_order
from softwright.checker.programs.ranges import fields_of
from softwright.checker.programs.state import BESIDE, State
from softwright.checker.programs.weighed import prove_weighed
from softwright.checker.programs.words import shown
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

METHOD = "columns of the stream, one lemma for every head"
HYPOTHESES = ("exp(0)=1",)
_ALONE = {"mean": prove_mean, "largest": prove_largest, "smooth": prove_smooth, "choose": prove_choice}


def prove_program(file: ModelFile) -> str:
    """What was proved, in words; NotProvedError if the statement does not follow from the file."""
    said, tokens = file.sections["certificate"], file.sections["certificate"]["target"]["tokens"]
    check_tokens(tokens)
    fields, symbols = fields_of(tokens)
    lengths = int(tokens["length"][0]), int(tokens["length"][1])
    meaning = Meaning(said["target"]["text"], fields, symbols, lengths)
    ranges = meaning.ranges
    for output in meaning.outputs:
        ranges.of(output)
    ranges.grant(meaning.supposed())
    lines = read_lines(file, meaning.graph)
    require(lines.outputs == meaning.outputs, "the program's meaning is not that of the evidence")
    kinds = [ranges.of(output).kind for output in meaning.outputs]
    require(file.sections["model"]["outputs"] == kinds, "the kinds of outputs are not those of the program")
    precision = precision_of(said["dtype"])
    state = State(lines, meaning, ranges, Bounds(precision, lengths[1], len(lines.bank)))
    state.fields_said = tokens["fields"]
    for value in meaning.supposed():
        if meaning.graph.op[value] == "interp":
            state.interpolated(value)
    prove_columns(state)
    check_used(state)
    bound = Fraction(0)
    for m, output in enumerate(meaning.outputs):
        form = state.form(lines.read[:, m])
        bound = max(bound, state.off(form, state.combination(output)))
    check_words(said, meaning, bound)
    top = Fraction(said["bound"])
    require(bound <= top, f"the error is only proved to be at most {float(bound):.6g}")
    return f"{said['statement']}: within {said['bound']:.6g}"


def check_used(state: State) -> None:
    """No term of the evidence stands there for nothing."""
    used, graph = set(state.lines.outputs), state.graph
    for line in state.said:
        used |= {line.value} if line.kind not in (*BESIDE, *STRUCTURE) else set()
        used |= set(line.leaves or ())
    pending = list(used)
    while pending:
        for arg in graph.args[pending.pop()]:
            if arg not in used:
                used.add(arg)
                pending.append(arg)
    require(set(state.lines.values) <= used, "a term stands there for nothing")
    bare = [value for value in state.lines.values if graph.op[value] in SUPPOSED and value not in state.ranges.granted]
    require(not bare, "a hypothesis that the claim does not name")


def prove_columns(state: State) -> None:
    """Every column, layer by layer."""
    heads = sorted(state.lines.heads, key=lambda head: head.layer)
    tables = {column for head in heads if head.kind in ("table", "digit", "curve") for column in head.writes}
    tables |= {column for column, line in enumerate(state.said) if line.kind in ("key", "bias")}
    written = {column for head in heads for column in head.writes}
    require(not any(column < len(STRUCTURE) for column in written), "a head writes a column of the structure")
    require(not any(state.said[column].kind in BESIDE for column in written), "a head writes what it must not")
    defaults = check_bank(state, tables)
    flags = {line.value: column for column, line in enumerate(state.said) if line.kind == "mark"}
    prove_embedding(state, written)
    done: set[int] = set()
    for layer in sorted({head.layer for head in heads}):
        now = [head for head in heads if head.layer == layer]
        sums: dict[int, list[Read]] = {}
        gates: dict[tuple[int, str], list[HeadLine]] = {}
        for head in now:
            again = done & set(head.writes)
            require(not again, "a column is written twice")
            if head.kind in ("table", "digit"):
                prove_lookup(state, head)
                done |= set(head.writes)
                continue
            if head.kind == "curve":
                prove_curve(state, head)
                done |= set(head.writes)
                continue
            if head.kind in ("attend", "select", "order", "line"):
                place = head.kind == "select" and state.said[head.writes[0]].kind == "near"
                other = prove_place if place else prove_attending
                {"order": prove_order, "line": prove_line}.get(head.kind, other)(state, head)
                done |= set(head.writes)
                continue
            if head.kind in (*GATES, "kernel", "weighed"):
                gates.setdefault((head.writes[0], head.kind), []).append(head)
                continue
            read = Read(state, head, defaults, flags)
            if head.kind == "sum":
                sums.setdefault(read.column, []).append(read)
                continue
            _ALONE[head.kind](read)
            done.add(read.column)
        for column, reads in sums.items():
            require(column not in done and column not in state.held, "a column is written twice")
            prove_sum(state, column, reads)
            done.add(column)
        for (column, kind), found in gates.items():
            require(column not in done and column not in state.held, "a column is written twice")
            if kind in ("kernel", "weighed"):
                {"kernel": prove_kernel, "weighed": prove_weighed}[kind](state, column, found)
            else:
                prove_gates(state, column, kind, found)
            done.add(column)


def hypothesis(graph: Graph, value: int) -> str:
    """What a value takes for granted, in words."""
    op, args = graph.op[value], graph.args[value]
    if op == "place_of":
        name, lead = shown(graph, args[0]), float(graph.constant[args[1]])
        return f"number {len(args) - 1} of the largest {name} leads by at least {lead:.17g}"
    if op == "interp":
        apart = float(graph.constant[args[3]])
        return f"each {shown(graph, args[1])} is at least {apart:.17g} more than the one before"
    if op == "assume":
        low, high = (float(graph.constant[arg]) for arg in args[1:])
        return f"{shown(graph, args[0])} lies between {low:.17g} and {high:.17g}"
    name = shown(graph, args[1], "j" if op == "choose" else "")
    return f"the largest {name} leads by at least {float(graph.constant[args[2]]):.17g}"


def check_words(said: dict, meaning: Meaning, bound: Fraction) -> None:
    """The sentence, the method and the premises are those of such a proof."""
    require(
        said["method"] == METHOD and said["engine"] == "sdpa" and said["norm"] == "sup", "the method is another one"
    )
    require(said["rounding_part"] == 0 and said["exact_part"] == said["bound"], "the bound has other parts")
    low, high = meaning.lengths
    what = "exactly the value" if said["bound"] == 0 else "within the bound of the value"
    sentence = (
        f"at every token of every sequence of {low} to {high} tokens of the stated fields, every output is {what} that "
        "the program means"
    )
    margins = [hypothesis(meaning.graph, value) for value in meaning.supposed()]
    sentence += f", where {' and '.join(margins)}" if margins else ""
    require(said["statement"] == sentence, f"the sentence of such a claim is: {sentence}")
    shortcuts = ", no TF32 or bfloat16 matrix products" if said["dtype"] == "float32" else ""
    precision = precision_of(said["dtype"])
    premises = [
        f"IEEE 754 {precision.name} arithmetic, rounded to nearest{shortcuts}; "
        f"exp in torch's CPU kernels accurate to {precision.exp_ulps} ulp",
        f"inputs are {precision.name} numbers of the domain",
        "exp(0) is exactly 1 in torch's CPU kernels",
    ]
    require(said["assumptions"] == premises, f"the premises of such a claim are: {'; '.join(premises)}")
