/* Matrices are {rows, columns, v}, row by row; a network is a chain of the papers' formulas on a token matrix. */
const matrix = (rows, columns, v = new Float64Array(rows * columns)) => ({rows, columns, v});
const slice = ({shape, numbers}, i) => { const size = shape[1] * shape[2]; return matrix(shape[1], shape[2], numbers.subarray(i * size, (i + 1) * size)); };
const whole = ({shape, numbers}) => matrix(shape.length > 1 ? shape[0] : shape[0], shape.length > 1 ? shape[1] : 1, numbers);
function product(a, b) {
  const y = matrix(a.rows, b.columns);
  for (let i = 0; i < a.rows; i++) for (let k = 0; k < a.columns; k++) {
    const f = a.v[i * a.columns + k];
    if (f) for (let j = 0; j < b.columns; j++) y.v[i * b.columns + j] = rnd(y.v[i * b.columns + j] + rnd(f * b.v[k * b.columns + j]));
  }
  return y;
}
function transposed(a) {
  const y = matrix(a.columns, a.rows);
  for (let i = 0; i < a.rows; i++) for (let j = 0; j < a.columns; j++) y.v[j * a.rows + i] = a.v[i * a.columns + j];
  return y;
}
function plus(a, b) {
  const y = matrix(a.rows, a.columns);
  for (let i = 0; i < a.rows; i++) for (let j = 0; j < a.columns; j++) y.v[i * a.columns + j] = rnd(a.v[i * a.columns + j] + b.v[i * b.columns + (b.columns === 1 ? 0 : j)]);
  return y;
}
function perColumn(a, change) {
  const y = matrix(a.rows, a.columns), column = new Float64Array(a.rows);
  for (let j = 0; j < a.columns; j++) {
    for (let i = 0; i < a.rows; i++) column[i] = a.v[i * a.columns + j];
    change(column, j);
    for (let i = 0; i < a.rows; i++) y.v[i * a.columns + j] = column[i];
  }
  return y;
}
/* Queries whose row of T is zero weigh nothing and are left out. */
const usedRows = T => Array.from({length: T.rows}, (_, i) => i).filter(i => T.v.subarray(i * T.columns, (i + 1) * T.columns).some(v => v !== 0));
function columnsOf(a, which) {
  const y = matrix(a.rows, which.length);
  for (let i = 0; i < a.rows; i++) which.forEach((j, k) => { y.v[i * which.length + k] = a.v[i * a.columns + j]; });
  return y;
}
const rowsOf = (a, which) => transposed(columnsOf(transposed(a), which));
function hardmax(column) {
  const most = Math.max(...column), ties = column.reduce((n, v) => n + (v === most), 0);
  column.forEach((v, i) => { column[i] = v === most ? 1 / ties : 0; });
}
/* Every stage: the matrix it gives, and the weights of its heads. */
const STAGES = {
  sum_of_linear(stage, X) {
    const R = whole(stage.R);
    let y = matrix(R.rows, R.columns);
    for (let i = 0; i < stage.P.shape[0]; i++) y = plus(y, product(product(slice(stage.P, i), X), slice(stage.Q, i)));
    return [plus(y, R), []];
  },
  attention(stage, Z) {
    const seen = [];
    let total = null;
    for (let h = 0; h < stage.W_K.shape[0]; h++) {
      const T = stage.T ? slice(stage.T, h) : null, used = T ? usedRows(T) : null, asked = used ? columnsOf(Z, used) : Z;
      const scores = product(transposed(product(slice(stage.W_K, h), Z)), product(slice(stage.W_Q, h), asked));
      const weights = perColumn(scores, (column, j) => {
        if (stage.causal) for (let i = (used ? used[j] : j) + 1; i < column.length; i++) column[i] = -Infinity;
        stage.hard ? hardmax(column) : softmax(column);
      });
      seen.push(weights);
      let out = product(product(slice(stage.W_V, h), Z), weights);
      if (stage.W_O) out = product(slice(stage.W_O, h), out);
      if (T) out = product(out, rowsOf(T, used));
      total = total ? plus(total, out) : out;
    }
    return [stage.residual ? plus(total, Z) : total, seen];
  },
  cross_attention(stage, Z) {
    const Y = whole(stage.Y), weights = perColumn(product(transposed(product(whole(stage.W_K), Y)), product(whole(stage.W_Q), Z)), column => softmax(column));
    return [product(product(whole(stage.W_V), Y), weights), [weights]];
  },
  linear(stage, Z) { const y = product(whole(stage.M), Z); return [stage.c ? plus(y, whole(stage.c)) : y, []]; },
  feed_forward(stage, Z) {
    const hidden = plus(product(whole(stage.W_1), Z), whole(stage.b_1));
    hidden.v.forEach((v, i) => { hidden.v[i] = Math.max(v, 0); });
    const y = plus(product(whole(stage.W_2), hidden), whole(stage.b_2));
    return [stage.residual ? plus(y, Z) : y, []];
  },
  softmax(stage, Z) { return [perColumn(Z, column => softmax(column)), []]; },
};
function run(X) {
  const steps = [];
  let Z = matrix(X.length, X[0].length, Float64Array.from(X.flat(), rnd));
  for (const stage of D.stages) { const [next, weights] = STAGES[stage.type](stage, Z); Z = next; steps.push({type: stage.type, weights}); }
  return {Z, steps};
}
const listed = ({rows, columns, v}) => Array.from({length: rows}, (_, i) => Array.from(v.slice(i * columns, (i + 1) * columns)));
softwright.net = X => listed(run(X).Z);
softwright.weights = X => run(X).steps.flatMap(step => step.weights.map(listed));

$("statement").textContent = D.statement;
D.conditions.forEach(text => $("conditions").append(el("li", null, text)));
$("sizes").textContent = D.sizes.map(([name, value]) => `${name} ${value}`).join(", ");
const rows = D.sweep.rows;
if (rows.length) {
  const plot = new Plot($("sweep"), 66);
  let at = 0;
  const logs = v => Math.log10(Math.max(v, 1e-17)), log = rows.every(row => row.bound > 0 && row.bound < 1e300);
  const height = log ? logs : v => v;
  const draw = () => {
    plot.begin([0, Math.max(1, rows.length - 1)], widened(limits(rows.flatMap(row => [height(row.bound), height(row.seen)]))), false);
    const g = plot.g;
    g.strokeStyle = colour("line"); g.strokeRect(plot.left, plot.top, plot.w - plot.left - plot.right, plot.h - plot.bottom - plot.top);
    g.fillStyle = colour("soft");
    rows.forEach((row, i) => { g.textAlign = i ? i === rows.length - 1 ? "right" : "center" : "left"; g.fillText(row.size, plot.X(i), plot.h - 8); });
    for (let q = 0; q <= 4; q++) { const v = plot.y[0] + (plot.y[1] - plot.y[0]) * q / 4; g.textAlign = "right"; g.fillText(log ? fmt(10 ** v, 2) : fmt(v, 3), plot.left - 5, clamp(plot.Y(v) + 4, 18, plot.h)); }
    g.textAlign = "left";
    plot.line(rows.map((_, i) => i), rows.map(row => height(row.bound)), colour("bad"), 5, [9, 5]);
    plot.line(rows.map((_, i) => i), rows.map(row => height(row.seen)), colour("net"), 2);
    rows.forEach((row, i) => { plot.dot(i, height(row.bound), colour("bad"), i === at ? 6 : 3.5); plot.dot(i, height(row.seen), colour("net"), i === at ? 6 : 3.5); });
    plot.legend([["the theorem's bound", colour("bad")], ["error seen (sampled)", colour("net")]]);
  };
  const tell = () => {
    const row = rows[at];
    $("row").textContent = `${D.sweep.name} ${row.size}: bound ${fmt(row.bound)}, seen ${fmt(row.seen, 3)} at ${row.inputs} inputs; ${row.layers} layer(s), ${row.heads} head(s), ${row.tokens} tokens, ${row.parameters} numbers`;
    say($("row").textContent);
    soon(draw);
  };
  if (rows.length > 1) slider($("turn"), `size, 1 to ${rows.length}`, 1, rows.length, 1, v => { at = v - 1; tell(); }, 1);
  fill($("rows"), [D.sweep.name, "bound", "seen", "tokens", "heads", "layers"], rows.map(row => ({cells: [row.size, fmt(row.bound), fmt(row.seen, 3), `${row.tokens}`, `${row.heads}`, `${row.layers}`]})));
  drawn.push(draw);
  tell();
} else $("sweep-box").hidden = true;
if (D.stages.length && D.examples.length) {
  let X = D.examples[0].map(row => row.slice()), shown = 0, all = [];
  const plot = new Plot($("weights"), 6, 6, 6, 6);
  const most = 40, fits = D.inputs[0] * D.inputs[1] <= 400;
  const draw = () => {
    if (!all.length) { $("weights-box").hidden = true; return; }
    const {weights, name} = all[shown], c = plot.begin([0, 1], [0, 1], false), w = plot.w - 12, hh = plot.h - 12;
    for (let i = 0; i < weights.rows; i++) for (let j = 0; j < weights.columns; j++) {
      c.fillStyle = rgb(weights.v[i * weights.columns + j]);
      c.fillRect(6 + j * w / weights.columns, 6 + i * hh / weights.rows, Math.max(0.6, w / weights.columns - 0.5), Math.max(0.6, hh / weights.rows - 0.5));
    }
    $("legend").textContent = `${name}: ${weights.rows} keys downwards, ${weights.columns} queries to the right; bright is a weight of 1`;
  };
  const update = () => {
    const {Z, steps} = run(X);
    all = steps.flatMap((step, i) => step.weights.map((weights, k) => ({weights, name: `stage ${i + 1} (${step.type.replaceAll("_", " ")}), head ${k + 1}`})));
    const columns = Math.min(Z.columns, most);
    fill($("output"), ["row", ...Array.from({length: columns}, (_, j) => `token ${j + 1}`)], listed(Z).slice(0, most).map((row, i) => ({cells: [`${i + 1}`, ...row.slice(0, columns).map(v => fmt(v, 7))]})));
    soon(draw);
  };
  const inputs = () => {
    $("input").replaceChildren(el("tbody", null, ...(fits ? X : []).map((row, i) => el("tr", null, el("th", {scope: "row"}, `${i + 1}`), ...row.map((v, j) => el("td", null, el("input", {type: "number", step: "any", value: fmt(v, 6), ariaLabel: `row ${i + 1}, token ${j + 1}`, oninput: event => { const n = Number(event.target.value); if (Number.isFinite(n)) { X[i][j] = n; update(); } }})))))));
  };
  choose($("examples"), "inputs of the theorem's domain", D.examples.map((_, i) => `sample ${i + 1}`), v => { X = D.examples[v].map(row => row.slice()); inputs(); update(); });
  inputs();
  update();
  if (all.length > 1) choose($("which"), "head", all.map(one => one.name), v => { shown = v; soon(draw); });
  drawn.push(draw);
} else $("run-box").hidden = $("weights-box").hidden = true;
