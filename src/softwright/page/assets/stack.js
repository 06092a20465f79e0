/* A stack of heads on its data token, in the sums that have weight. */
/* x (sparse map) -> y, y_c = sum_r x_r M_rc */
function times(x, {shape, rows, columns, values}) {
  const y = new Float64Array(shape[1]);
  for (let p = 0; p < values.length; p++) y[columns[p]] = rnd(y[columns[p]] + rnd(x[rows[p]] * values[p]));
  return y;
}
function dot(a, b, start = 0) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total = rnd(total + rnd(a[i] * b[start + i]));
  return total;
}
/* One head on a stream: its weights, and what it writes. */
function runHead(head, x) {
  const query = times(x, head.query);
  let scores, mixed;
  if (head.keys) {
    const k = head.width, n = head.keys.length / k, v = head.values.length / n;
    scores = new Float64Array(n);
    for (let j = 0; j < n; j++) scores[j] = dot(query, head.keys, j * k);
    softmax(scores);
    mixed = new Float64Array(v);
    for (let q = 0; q < v; q++) for (let j = 0; j < n; j++) mixed[q] = rnd(mixed[q] + rnd(scores[j] * head.values[j * v + q]));
  } else {
    const own = times(x, head.value);
    scores = softmax(Float64Array.of(dot(query, times(x, head.key)), dot(query, head.nullKey)));
    mixed = own.map((value, q) => rnd(rnd(scores[0] * value) + rnd(scores[1] * head.nullValue[q])));
  }
  return {query, weights: scores, mixed, written: times(mixed, head.out)};
}
/* The data token's stream before the first layer and after every one. */
function streams({embed, base, layers}, x) {
  let stream = times(x.map(rnd), embed).map((v, i) => rnd(v + base[i]));
  const all = [stream];
  for (const layer of layers) {
    const next = stream.slice();
    for (const head of layer) {
      const {written} = runHead(head, stream);
      for (let c = 0; c < next.length; c++) if (written[c]) next[c] = rnd(next[c] + written[c]);
    }
    all.push(stream = next);
  }
  return all;
}
