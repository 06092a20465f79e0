/* z = sum_l a_l W_V x_l / (S + sum_l a_l), the id W_I F(X); then the softmax over stored ids, or the ramps. */
const h = D.head, r = D.readout, e = h.codeSize, s = h.rank, width = h.width, stored = r.values.length / r.outputs, known = h.codes.length / e;
const places = h.place_codes.length > 0, wordPlaces = new Map(D.words.map((word, i) => [word, i]));
/* A text as items (tokens or vectors); null for what is no number. */
function itemsOf(text) {
  if (D.tokenizer === "whitespace") return text.split(/\s+/).filter(Boolean).map(word => ({name: word, token: wordPlaces.has(word) ? wordPlaces.get(word) : -1}));
  if (D.tokenizer === "bytes") return Array.from(new TextEncoder().encode(text), byte => ({name: String(byte), token: byte}));
  if (h.vectors) return text.split(/[;\n]+/).filter(line => line.trim()).map(line => {
    const vector = line.trim().split(/[\s,]+/).map(Number);
    return {name: line.trim(), vector: vector.length === e && vector.every(Number.isFinite) ? vector : null};
  });
  return text.split(/[\s,]+/).filter(Boolean).map(word => ({name: word, token: /^[+-]?\d+$/.test(word) ? Number(word) : NaN}));
}
function rowOf(token) {
  if (!h.vocabulary.length) return token >= 0 && token < known ? token : -1;
  return h.vocabulary.indexOf(token);
}
/* Everything that the two layers make of a sequence. */
function recall(items) {
  let foreign = items.length > h.longest;
  items = items.slice(0, h.longest);
  const total = new Float64Array(s), terms = [], found = [];
  let mass = Math.exp(h.sentinel);
  const shown = items.map((item, l) => {
    const row = h.vectors ? -1 : rowOf(item.token), code = new Float64Array(e);
    if (h.vectors ? !item.vector : row < 0) foreign = true;
    for (let i = 0; i < e; i++) {
      let c = h.vectors ? (item.vector ? rnd(item.vector[i]) : 0) : row < 0 ? 0 : h.codes[row * e + i];
      if (places) c = rnd(c * h.place_codes[l * e + i]);
      if (h.vectors && Math.abs(c) > h.reach[i]) foreign = true;
      code[i] = c;
    }
    let score = h.log_weights[l];
    let extra = 0;
    for (let i = 0; i < e; i++) extra += h.score[i] * code[i];
    const weight = Math.exp(score + extra);
    for (let q = 0; q < s; q++) {
      let v = 0;
      for (let i = 0; i < e; i++) v += h.value[q * e + i] * code[i];
      total[q] += v * weight;
    }
    mass += weight;
    terms.push({weight, code, context: total.slice(), mass});
    return item.name;
  });
  const idOf = (context, all, own, l) => {
    const id = new Float64Array(width);
    for (let p = 0; p < width; p++) {
      id[p] = h.shift[p];
      for (let q = 0; q < s; q++) id[p] += h.read[p * s + q] * (context[q] / all);
      if (own) { for (let i = 0; i < e; i++) id[p] += h.own[p * e + i] * own[i]; id[p] += h.log_weights[l] * h.place[p]; }
    }
    return id;
  };
  if (D.reading.byToken) terms.forEach((term, l) => found.push(lookup(D.reading.causal ? idOf(term.context, term.mass, term.code, l) : idOf(total, mass, term.code, l), foreign)));
  else found.push(lookup(idOf(total, mass, null, 0), foreign));
  return {found, foreign, names: shown, weights: terms.map(term => term.weight / mass), sentinel: Math.exp(h.sentinel) / mass};
}
/* The nearest keys of an id, their weights, and what is recalled. */
function lookup(id, foreign) {
  const squares = new Float64Array(stored);
  for (let j = 0; j < stored; j++) { let t = 0; for (let p = 0; p < width; p++) { const g = id[p] - r.keys[j * width + p]; t += g * g; } squares[j] = t; }
  const order = Array.from(squares.keys()).sort((a, b) => squares[a] - squares[b]).slice(0, 8), best = order[0];
  const distance = Math.sqrt(squares[best]), isKnown = distance <= D.radius && !foreign;
  const weights = new Float64Array(stored), value = new Array(r.outputs).fill(0);
  if (r.kind === "attention") {
    let mass = 0;
    for (let j = 0; j < stored; j++) mass += weights[j] = Math.exp(-0.5 * r.beta * (squares[j] - squares[best]));
    for (let j = 0; j < stored; j++) weights[j] /= mass;
  } else {
    let j = 0;
    while (j < stored - 2 && r.keys[j + 1] <= id[0]) j++;
    const ramp = stored > 1 ? clamp(id[0] * r.slopes[j] + r.offsets[j], 0, 1) : 0;
    weights[j] = 1 - ramp;
    if (stored > 1) weights[j + 1] = ramp;
  }
  for (let o = 0; o < r.outputs; o++) {
    if (isKnown) value[o] = r.values[best * r.outputs + o];
    else for (let j = 0; j < stored; j++) if (weights[j]) value[o] += weights[j] * r.values[j * r.outputs + o];
  }
  const own = Math.round(r.values[best * r.outputs]), place = isKnown && Math.abs(value[0] - own) < 0.5 ? Math.round(value[0]) : own;
  return {id, order, distances: order.map(j => Math.sqrt(squares[j])), weights: order.map(j => weights[j]), index: best, distance, known: isKnown, value, label: D.classes ? D.classes[place] : value.map(v => fmt(v, 8)).join(", ")};
}
const labelOf = j => D.classes ? D.classes[Math.round(r.values[j * r.outputs])] : Array.from(r.values.slice(j * r.outputs, (j + 1) * r.outputs), v => fmt(v)).join(", ");
softwright.recall = text => recall(itemsOf(text));
softwright.labelOf = labelOf;

let result = null, chosen = 0;
const plot = new Plot($("ids"));
function show() {
  const items = itemsOf($("text").value);
  if (!items.length && D.reading.byToken) { $("verdict").textContent = "type a sequence"; return; }
  result = recall(items);
  chosen = Math.min(chosen, result.found.length - 1);
  const one = result.found[chosen], what = D.reading.byToken ? `token ${chosen + 1} (${result.names[chosen]})` : "the sequence";
  const verdict = one.known ? `${what} was stored: recalled ${one.label}` : result.foreign ? `${what} cannot have been stored (a token or a length that no stored one has); the nearest stored id recalls ${one.label}` : `${what} was never stored; ${D.classes ? "the nearest stored id recalls" : "what comes out is"} ${one.label}`;
  $("verdict").textContent = `${verdict}; its id lies ${fmt(one.distance, 3)} from the nearest stored one, and stored ones lie within ${fmt(D.radius, 3)}`;
  say(verdict);
  fill($("near"), ["stored item", "recalls", "distance", "weight"], one.order.map((j, i) => ({hot: i === 0 && one.known, cells: [`item ${j + 1}`, labelOf(j), fmt(one.distances[i]), bar(one.weights[i])]})));
  const rows = [{cells: ["sentinel", "", bar(result.sentinel), ""]}, ...result.names.map((name, l) => ({hot: D.reading.byToken && l === chosen, cells: [name, `place ${l + 1}`, bar(result.weights[l]), D.reading.byToken ? el("button", {type: "button", onclick: () => { chosen = l; show(); }}, result.found[l].label + (result.found[l].known ? "" : " (unknown)")) : ""]}))];
  fill($("heard"), ["token", "place", "weight in the context", D.reading.byToken ? "recalls" : ""], rows);
  soon(drawIds);
}
function drawIds() {
  if (!result) return;
  const id = result.found[chosen].id, flat = width === 1, xs = [], ys = [];
  for (let j = 0; j < stored; j++) { xs.push(r.keys[j * width]); ys.push(flat ? r.values[j * r.outputs] : r.keys[j * width + 1]); }
  plot.begin(widened(limits([...xs, id[0]])), widened(limits(flat ? ys : [...ys, id[1]])));
  const step = Math.max(1, Math.floor(stored / 4000));
  for (let j = 0; j < stored; j += step) plot.dot(xs[j], ys[j], SERIES[D.classes ? Math.round(r.values[j * r.outputs]) % SERIES.length : 0], stored > 300 ? 1.6 : 3.5);
  const best = result.found[chosen].index;
  plot.cross(id[0], flat ? result.found[chosen].value[0] : id[1], true);
  const g = plot.g;
  g.strokeStyle = colour("ink"); g.lineWidth = 1.5; g.beginPath(); g.arc(plot.X(xs[best]), plot.Y(ys[best]), 7, 0, 7); g.stroke();
  $("plane").textContent = flat ? "to the right the id, a single number; up the label" : `the first two of ${width} coordinates of an id; the ring is the nearest stored one`;
}
$("how").textContent = D.tokenizer === "whitespace" ? `words between blanks; ${D.words.length} words are known` : D.tokenizer === "bytes" ? "any text, read byte by byte" : h.vectors ? `vectors of ${e} numbers, separated by ;` : `whole numbers between blanks${D.foreignTokenizer ? ": the tokenizer of this memory does not run in a page" : ""}`;
{
  const offered = D.tokenizer === "whitespace" ? D.words.slice(0, 40) : D.tokenizer || h.vectors ? [] : (h.vocabulary.length ? h.vocabulary : Array.from({length: known}, (_, i) => i)).slice(0, 40).map(String);
  for (const word of offered) $("words").append(el("button", {type: "button", onclick: () => { $("text").value = `${$("text").value.trim()} ${word}`.trim(); show(); }}, word));
  if (offered.length) $("words").append(el("button", {type: "button", onclick: () => { $("text").value = $("text").value.trim().split(/\s+/).slice(0, -1).join(" "); show(); }}, "take the last one off"));
}
$("text").value = D.start;
$("text").addEventListener("input", show);
drawn.push(drawIds);
show();
