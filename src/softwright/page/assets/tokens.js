/* Rows of tokens times a sparse matrix. Tokens are {count, v}, row by row. */
function map(tokens, wide, {shape, rows, columns, values}) {
  const out = shape[1], y = new Float64Array(tokens.count * out), v = tokens.v;
  for (let p = 0; p < values.length; p++) {
    const r = rows[p], c = columns[p], f = values[p];
    for (let t = 0; t < tokens.count; t++) y[t * out + c] = rnd(y[t * out + c] + rnd(v[t * wide + r] * f));
  }
  return {count: tokens.count, v: y, wide: out};
}
/* A sparse matrix row by row, as numbers. */
function dense({shape, rows, columns, values}) {
  const made = new Float64Array(shape[0] * shape[1]);
  for (let p = 0; p < values.length; p++) made[rows[p] * shape[1] + columns[p]] = values[p];
  return made;
}
