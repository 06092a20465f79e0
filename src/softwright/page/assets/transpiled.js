/* Layers of neurons phi(W x + b), every neuron a head over its layer's tokens: sum_j w_j (v_j s + u_j), w = softmax(k_j s + b_j). */
function affine({weight, bias, inputs, outputs}, x) {
  const y = new Float64Array(outputs);
  for (let i = 0, p = 0; i < outputs; i++) {
    let t = 0;
    for (let j = 0; j < inputs; j++, p++) t = rnd(t + rnd(weight[p] * x[j]));
    y[i] = rnd(t + bias[i]);
  }
  return y;
}
function weightsOf(step, s) {
  const scores = new Float64Array(step.keys.length);
  for (let j = 0; j < scores.length; j++) scores[j] = rnd(rnd(step.keys[j] * s) + step.biases[j]);
  return softmax(scores);
}
function unit(step, s) {
  const w = weightsOf(step, s);
  let slope = 0, offset = 0;
  for (let j = 0; j < w.length; j++) { slope = rnd(slope + rnd(w[j] * step.slopes[j])); offset = rnd(offset + rnd(w[j] * step.offsets[j])); }
  return rnd(rnd(slope * s) + offset);
}
function apply(step, x) {
  if (step.type === "linear") return {y: affine(step, x)};
  if (step.type === "heads") { const s = affine(step, x); return {s, y: s.map(v => unit(step, v))}; }
  const gate = apply(step.gate, x), u = gate.y, b = affine(step.value, x);
  const y = u.map((v, i) => {
    let total = 0;
    for (let k = 0; k < step.steps.length; k++) {
      const score = rnd(step.steps[k] * v), w = softmax(Float64Array.of(score, rnd(step.second * score)));
      total = rnd(total + rnd(step.shares[k] * rnd((step.second === 0 ? w[0] : rnd(w[0] + rnd(step.second * w[1]))) * b[i])));
    }
    return total;
  });
  return {s: gate.s, y, gate: u, value: b};
}
function pass(x) {
  let now = x.map(atEnds);
  return D.steps.map(step => { const made = apply(step, now); now = made.y; return made; });
}
const activations = D.source ? D.source.map(({tape}) => formula(tape)) : null;
function source(x) {
  let now = x;
  D.steps.forEach((step, i) => { now = Array.from(affineExactly(D.source[i].own || step, now), v => activations[i]([v])[0]); });
  return Array.from(now);
}
/* The source in float64, whatever the network runs in. */
function affineExactly({weight, bias, inputs, outputs}, x) {
  return Array.from({length: outputs}, (_, i) => { let t = bias[i]; for (let j = 0; j < inputs; j++) t += weight[i * inputs + j] * x[j]; return t; });
}
const model = {
  net(x) { const all = pass(x); return Array.from(all[all.length - 1].y, atEnds); },
  target: activations ? source : null,
  show(x) { last = pass(x); update(); return ""; },
};
softwright.net = model.net;
let last = null, chosen = null;
const SHOWN = 48, dots = [];
{
  const tall = Math.min(SHOWN, Math.max(...D.steps.map(step => step.outputs))), total = Math.max(90, tall * 15 + 30), gap = 150;
  const picture = svg("svg", {width: D.steps.length * gap + 20, height: total, role: "group", "aria-label": "neurons"});
  D.steps.forEach((step, l) => {
    const count = Math.min(SHOWN, step.outputs);
    picture.append(svg("text", {x: l * gap + 4, y: 14, class: "value"}, `${l + 1}: ${step.outputs} ${step.type === "linear" ? "sums" : D.stepNames[l] || ""}`));
    for (let i = 0; i < count; i++) {
      const y = 26 + (i + 0.5) * (total - 30) / count, name = `layer ${l + 1}, ${step.type === "linear" ? "sum" : "neuron"} ${i + 1}`, circle = svg("circle", {cx: l * gap + 16, cy: y, r: 6});
      const text = svg("text", {x: l * gap + 28, y: y + 4, class: "value"}), group = svg("g", {tabindex: 0, role: "button"}, svg("title", {}, name), svg("rect", {x: l * gap + 6, y: y - 7.5, width: gap - 20, height: 15, class: "hit"}), circle, text);
      const choose = () => { chosen = [l, i]; update(); };
      group.addEventListener("click", choose);
      group.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
      dots.push({l, i, group, circle, text, bare: total / count < 14});
      picture.append(group);
    }
    if (step.outputs > count) picture.append(svg("text", {x: l * gap + 28, y: total - 2, class: "value"}, `and ${step.outputs - count} more`));
    if (!chosen && step.type !== "linear") chosen = [l, 0];
  });
  $("diagram").append(picture);
}
const plot = new Plot($("unit"));
function headOf(step) { return step.type === "gated" ? (step.gate.keys ? step.gate : null) : step.keys ? step : null; }
function update() {
  if (!last) return;
  const most = last.map(({y}) => Math.max(...Array.from(y, Math.abs)) || 1);
  for (const {l, i, group, circle, text, bare} of dots) {
    const v = last[l].y[i];
    circle.style.fill = rgb(0.5 + 0.5 * v / most[l]);
    text.textContent = bare ? "" : fmt(v, 5);
    group.setAttribute("aria-pressed", !!chosen && chosen[0] === l && chosen[1] === i);
    circle.style.stroke = chosen && chosen[0] === l && chosen[1] === i ? colour("bad") : "none";
    circle.style.strokeWidth = "3px";
  }
  if (!chosen) { $("neuron-title").textContent = "no layer has an activation"; return; }
  const [l, i] = chosen, step = D.steps[l], made = last[l], head = headOf(step);
  $("neuron-title").textContent = `layer ${l + 1} (${D.stepNames[l] || step.type}), neuron ${i + 1}`;
  if (!head) { $("neuron").textContent = `gives ${fmt(made.y[i], 10)}` + (step.type === "gated" ? `\ngate ${fmt(made.gate[i], 8)}, value ${fmt(made.value[i], 8)}` : ""); fill($("tokens"), ["tokens"], []); return; }
  const s = made.s[i], w = weightsOf(head, s);
  $("neuron").textContent = `s = w.x + b = ${fmt(s, 10)}\n` + (step.type === "gated" ? `gate ${fmt(made.gate[i], 8)}, value ${fmt(made.value[i], 8)}, gives ${fmt(made.y[i], 10)}` : `gives ${fmt(made.y[i], 12)}` + (activations ? `\nthe activation itself ${fmt(activations[l]([s])[0], 12)}` : ""));
  fill($("tokens"), ["token", "score", "weight", "value here"], Array.from(w, (v, j) => ({hot: v > 0.2, cells: [head.tokenNames[j], fmt(head.keys[j] * s + head.biases[j]), bar(v), fmt(head.slopes[j] * s + head.offsets[j], 6)]})));
  soon(drawUnit);
}
function drawUnit() {
  if (!chosen || !last) return;
  const step = D.steps[chosen[0]], head = headOf(step);
  if (!head) return;
  const s = last[chosen[0]].s[chosen[1]], wide = Math.max(4, 1.3 * Math.abs(s)), xs = Array.from({length: 241}, (_, k) => -wide + 2 * wide * k / 240), ys = xs.map(v => unit(head, v));
  plot.begin([-wide, wide], widened(limits(ys)));
  plot.line(xs, ys, colour("net"), 3);
  if (activations && step.type === "heads") plot.line(xs, xs.map(v => activations[chosen[0]]([v])[0]), colour("target"), 1.2, [4, 5]);
  head.keys.forEach((_, j) => plot.line(xs, xs.map(v => plot.y[0] + (plot.y[1] - plot.y[0]) * weightsOf(head, v)[j]), SERIES[(j + 1) % SERIES.length], 0.8));
  plot.legend([["head", colour("net")], ["weights of its tokens, 0 to 1", SERIES[1]]]);
  plot.cross(s, unit(head, s), false);
}
drawn.push(drawUnit);
