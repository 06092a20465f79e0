"""What stock `nn.MultiheadAttention` computes with the weights that the layout multihead gives it, as a program.

    q = query Wq^T + b_q,   k, v = tokens Wk^T + b_k, tokens Wv^T + b_v,   head h: softmax(q_h k_h^T / sqrt(width)) v_h

then the output projection. Queries of zeros are written as the bias that is left of them.
"""

from __future__ import annotations

from softwright.export.program import Program


def shared_head(program: Program, at: str, sums: str, heads: int) -> str:
    """(q, H) -> (q, H): queries (s, 1, 0, 0) of one head, tokens (k_j, b_j, v_j, u_j); what it returns is v s + u."""
    a = f"{at}attention."
    program.add("Reshape", [sums], f"{a}numbers", shape=[-1, 1])  # (q H, 1)
    if program.constants[f"{a}out_proj.weight"].shape[0] == 1:
        return _numbers(program, at, heads)
    program.number(1, f"{a}one", [1, 1])
    program.number(0, f"{a}zeros", [1, 2])
    for name in ("one", "zeros"):
        program.repeat(f"{a}{name}", f"{a}numbers", f"{a}{name}_each", 1, 1)
    program.add("Concat", [f"{a}numbers", f"{a}one_each", f"{a}zeros_each"], f"{a}query", axis=[1])  # (q H, 4)
    program.add("Transpose", [f"{at}tokens"], f"{a}tokens", perm=[1, 0])  # (p, 4)
    weights = _projections(program, a, "qkv")
    for name, source in (("q", "query"), ("k", "tokens"), ("v", "tokens")):
        _projected(program, f"{a}{source}", weights[name], f"{a}{name}")
    program.add("Transpose", [f"{a}k"], f"{a}keys", perm=[1, 0])  # (4, p)
    program.add("MatMul", [f"{a}q", f"{a}keys"], f"{a}products")  # (q H, p)
    program.number(4, f"{a}width", [program.constants[f"{at}tokens"].shape[1]])
    program.add("Sqrt", [f"{a}width"], f"{a}root")
    program.add("Div", [f"{a}products", f"{a}root"], f"{a}scores")
    program.add("Softmax", [f"{a}scores"], f"{a}weights")
    out = _written(program, a, program.add("MatMul", [f"{a}weights", f"{a}v"], f"{a}mixed"), 4)  # (q H, 4)
    for place, name in enumerate(("slope", "offset")):
        program.part(out, f"{a}{name}", place, place + 1, axis=1)  # (q H, 1)
    program.add("Mul", [f"{a}slope", f"{a}numbers"], f"{a}linear")
    program.add("Add", [f"{a}linear", f"{a}offset"], f"{a}out")
    return program.add("Reshape", [f"{a}out"], f"{at}neurons", shape=[-1, heads])


def _numbers(program: Program, at: str, heads: int) -> str:
    """The same of width 1: queries s, keys k_j, values v_j or u_j, and the biases as the mask, which is added."""
    a, sloped = f"{at}attention.", bool(program.constants[f"{at}tokens"][2].any())
    kind = "slopes" if sloped else "offsets"
    for name in ("keys", kind):
        program.add("Transpose", [f"{at}{name}"], f"{a}{name}_column", perm=[1, 0])  # (p, 1)
    weights = _projections(program, a, "qkv")
    for name, source in (("q", "numbers"), ("k", "keys_column"), ("v", f"{kind}_column")):
        _projected(program, f"{a}{source}", weights[name], f"{a}{name}")
    program.add("Transpose", [f"{a}k"], f"{a}keys", perm=[1, 0])  # (1, p)
    program.add("MatMul", [f"{a}q", f"{a}keys"], f"{a}products")  # (q H, p)
    program.add("Add", [f"{a}products", f"{at}biases"], f"{a}scores")
    program.add("Softmax", [f"{a}scores"], f"{a}weights")
    out = _written(program, a, program.add("MatMul", [f"{a}weights", f"{a}v"], f"{a}mixed"), 1)  # (q H, 1)
    if sloped:
        out = program.add("Mul", [out, f"{a}numbers"], f"{a}out")
    return program.add("Reshape", [out], f"{at}neurons", shape=[-1, heads])


def stock_neurons(program: Program, at: str, x: str, heads: int) -> str:
    """(q, d) -> (q, H)"""
    tokens = program.constants[f"{at}tokens"]
    sink = tokens.shape[1] == 2 and not tokens[:, 0].any() and tokens[1:, 1].tolist() == [0.0, 1.0, 0.0]
    return _sink(program, at, x, heads) if sink else _tokens(program, at, x, heads)


def _projections(program: Program, at: str, names: str) -> dict[str, tuple[str, str]]:
    """The transposed weights and the bias of each of these projections; torch packs them if all have one shape."""
    constants, found = program.constants, {}
    size = constants[f"{at}out_proj.weight"].shape[0]
    for name in names:
        first = "qkv".index(name) * size
        weight = f"{at}{name}_proj_weight"
        if f"{at}in_proj_weight" in constants:
            program.part(f"{at}in_proj_weight", weight, first, first + size)
        program.add("Transpose", [weight], f"{weight}_across", perm=[1, 0])
        found[name] = (f"{weight}_across", program.part(f"{at}in_proj_bias", f"{at}{name}_bias", first, first + size))
    return found


def _projected(program: Program, source: str, weight: tuple[str, str], output: str) -> str:
    program.add("MatMul", [source, weight[0]], f"{output}_products")
    return program.add("Add", [f"{output}_products", weight[1]], output)


def _written(program: Program, at: str, mixed: str, heads: int) -> str:
    """The output projection, (q, E) -> (q, H)."""
    wide = program.constants[f"{at}out_proj.weight"].shape[0]
    program.add("Transpose", [f"{at}out_proj.weight"], f"{at}out_across", perm=[1, 0])
    out = _projected(program, mixed, (f"{at}out_across", f"{at}out_proj.bias"), f"{at}written")
    return out if wide == heads else program.part(out, f"{at}neurons", 0, heads, axis=1)


def _sink(program: Program, at: str, x: str, heads: int) -> str:
    """A sequence of the one token x and a zero token: keys and values W x + c, queries beta."""
    a = f"{at}attention."
    weights = _projections(program, a, "kv")
    program.part(f"{a}in_proj_bias", f"{a}queries", 0, heads)
    keys, values = (_projected(program, x, weights[name], f"{a}{name}") for name in "kv")
    program.add("Mul", [keys, f"{a}queries"], f"{a}score")
    program.add("Reshape", [f"{a}score"], f"{a}score_column", shape=[-1, heads, 1])
    program.number(0, f"{a}zero", [1, 1, 1])
    program.repeat(f"{a}zero", f"{a}score_column", f"{a}zero_score", 2, 1)
    program.add("Concat", [f"{a}score_column", f"{a}zero_score"], f"{a}scores", axis=[2])
    program.add("Softmax", [f"{a}scores"], f"{a}weights")
    program.part(f"{a}weights", f"{a}weight_column", 0, 1, axis=2)
    program.add("Reshape", [f"{a}weight_column"], f"{a}weight", shape=[-1, heads])
    return _written(program, a, program.add("Mul", [f"{a}weight", values], f"{a}mixed"), heads)


def _tokens(program: Program, at: str, x: str, heads: int) -> str:
    """p tokens (v_j x, v_j, u_j, k_j, b_j); the query holds x."""
    a, constants = f"{at}attention.", program.constants
    _, p = constants[f"{at}tokens"].shape
    wide = constants[f"{a}out_proj.weight"].shape[0]
    packed = f"{a}in_proj_weight" in constants
    d = (wide if packed else constants[f"{a}k_proj_weight"].shape[1]) - 4
    width = 2 if constants[f"{at}tokens"][1].any() else 1
    size = wide // width
    for name in ("slopes", "offsets", "keys", "biases"):
        program.add("Reshape", [f"{at}{name}"], f"{a}{name}_column", shape=[1, p, 1])
    program.add("Reshape", [x], f"{a}x", shape=[-1, 1, d])
    program.add("Mul", [f"{a}x", f"{a}slopes_column"], f"{a}sloped")  # (q, p, d)
    columns = [f"{a}{name}_column" for name in ("slopes", "offsets", "keys", "biases")]
    program.add("Concat", columns, f"{a}fixed", axis=[2])
    program.repeat(f"{a}fixed", x, f"{a}fixed_for_all", 1, 2)
    program.add("Concat", [f"{a}sloped", f"{a}fixed_for_all"], f"{a}tokens", axis=[2])  # (q, p, d + 4)
    query = x
    if wide > d:
        program.number(0, f"{a}zeros", [1, wide - d])
        program.repeat(f"{a}zeros", x, f"{a}padding", 1, 1)
        query = program.add("Concat", [x, f"{a}padding"], f"{a}query", axis=[1])
    weights = _projections(program, a, "qkv")
    _projected(program, query, weights["q"], f"{a}q")  # (q, E)
    for name in "kv":
        _projected(program, f"{a}tokens", weights[name], f"{a}{name}")  # (q, p, E)
        program.add("Reshape", [f"{a}{name}"], f"{a}{name}_heads", shape=[-1, p, size, width])
    program.add("Reshape", [f"{a}q"], f"{a}queries", shape=[-1, size, 1, width])
    program.add("Transpose", [f"{a}k_heads"], f"{a}keys", perm=[0, 2, 3, 1])  # (q, size, width, p)
    program.add("Transpose", [f"{a}v_heads"], f"{a}values", perm=[0, 2, 1, 3])  # (q, size, p, width)
    scores = program.add("MatMul", [f"{a}queries", f"{a}keys"], f"{a}products")  # (q, size, 1, p)
    if width > 1:
        program.number(width, f"{a}width", [p])
        program.add("Sqrt", [f"{a}width"], f"{a}root")
        scores = program.add("Div", [scores, f"{a}root"], f"{a}scores")
    program.add("Softmax", [scores], f"{a}weights")
    program.add("MatMul", [f"{a}weights", f"{a}values"], f"{a}mixed_heads")  # (q, size, 1, width)
    return _written(program, a, program.add("Reshape", [f"{a}mixed_heads"], f"{a}mixed", shape=[-1, wide]), heads)


def stock_product(program: Program, at: str, u: str, b: str, heads: int) -> str:
    """Two tokens (u, b) and second (u, b), a head of width 1 for every unit and step; (q, H)."""
    a = f"{at}product."
    size = program.constants[f"{a}out_proj.weight"].shape[0]
    program.add("Concat", [u, b], f"{a}token", axis=[1])  # (q, 2 H)
    program.add("Concat", [f"{at}second", f"{at}second"], f"{a}signs", axis=[1])
    program.add("Mul", [f"{a}token", f"{a}signs"], f"{a}other_token")
    for name in ("token", "other_token"):
        program.add("Reshape", [f"{a}{name}"], f"{a}{name}_row", shape=[-1, 1, 2 * heads])
    program.add("Concat", [f"{a}token_row", f"{a}other_token_row"], f"{a}tokens", axis=[1])  # (q, 2, 2 H)
    weights = _projections(program, a, "kv")
    program.part(f"{a}in_proj_bias", f"{a}queries", 0, size)
    for name in "kv":
        _projected(program, f"{a}tokens", weights[name], f"{a}{name}")  # (q, 2, size)
        program.add("Transpose", [f"{a}{name}"], f"{a}{name}_heads", perm=[0, 2, 1])
    program.add("Reshape", [f"{a}queries"], f"{a}queries_column", shape=[size, 1])
    program.add("Mul", [f"{a}k_heads", f"{a}queries_column"], f"{a}scores")  # (q, size, 2)
    program.add("Softmax", [f"{a}scores"], f"{a}weights")
    program.add("Reshape", [f"{a}weights"], f"{a}weights_rows", shape=[-1, size, 1, 2])
    program.add("Reshape", [f"{a}v_heads"], f"{a}values_columns", shape=[-1, size, 2, 1])
    program.add("MatMul", [f"{a}weights_rows", f"{a}values_columns"], f"{a}mixed_heads")
    return _written(program, a, program.add("Reshape", [f"{a}mixed_heads"], f"{a}mixed", shape=[-1, size]), heads)
