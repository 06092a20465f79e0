"""The graph of one layer of softmax heads: sum over heads of w (v + G t), w = softmax(K t + b), t = (x - c) s."""

from __future__ import annotations

from softwright.checker.graphs.lines import ELEMENTS, Graph, Lines
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile


def approximation(file: ModelFile, write: Lines) -> Graph:
    tensors, model = file.subject_tensors, file.sections["model"]
    engine = file.sections["certificate"]["claim"]["engine"]
    require(engine != "factorised", "the claim is about the factorised engine, the graph is the dense one")
    double = engine == "double"
    if double:  # float64 inside: what is read is made wide, what is returned is rounded once
        for name in ("x", *sorted(tensors)):
            write(f"{name}.wide = Cast {name} | to={ELEMENTS['float64']}")
    w = ".wide" if double else ""
    write(f"centred = Sub x{w} center{w}")
    write(f"t = Mul centred scale{w}")
    d, heads, total, m = len(model["box"]), len(model["heads"]), "", 0
    for i in range(heads):
        h = f"layer.heads.{i}."
        N, m = tensors[h + "values"].shape
        write(f"{h}keys_across = Transpose {h}keys{w} | perm=1,0")
        write(f"{h}products = {'Mul' if d == 1 else 'MatMul'} t {h}keys_across")
        write(f"{h}scores = Add {h}products {h}biases{w}")
        write(f"{h}weights = Softmax {h}scores")
        out = write(f"{h}constant = MatMul {h}weights {h}values{w}")
        if h + "slopes" in tensors:
            write(f"{h}slopes_flat = Reshape {h}slopes{w} | shape={N},{m * d}")
            write(f"{h}slope_flat = MatMul {h}weights {h}slopes_flat")
            if d == 1:
                write(f"{h}linear = Mul {h}slope_flat t")
            else:
                write(f"{h}slope = Reshape {h}slope_flat | shape=-1,{m},{d}")
                write(f"{h}t = Reshape t | shape=-1,{d},1")
                write(f"{h}linear_column = MatMul {h}slope {h}t")
                write(f"{h}linear = Reshape {h}linear_column | shape=-1,{m}")
            out = write(f"{h}head = Add {out} {h}linear")
        total = write(f"sum.{i} = Add {total} {out}") if i else out
    if double:
        total = write(f"narrow = Cast {total} | to={ELEMENTS['float32']}")
    return Graph([("x", ["q", d])], total, ["q", m])
