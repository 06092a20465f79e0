/* Formulas as data: a list of steps, each an operation on earlier ones. Nothing is compiled, no text is run. */
const ROOT_PI = Math.sqrt(Math.PI);
function erfSmall(x) {  // 2/sqrt(pi) x e^(-x^2) sum (2x^2)^n/(2n+1)!!: no term is negative
  let term = x, total = x;
  for (let n = 1; n < 200 && term !== 0; n++) {
    term *= 2 * x * x / (2 * n + 1);
    if (total + term === total) break;
    total += term;
  }
  return 2 / ROOT_PI * Math.exp(-x * x) * total;
}
function erfcLarge(x) {  // e^(-x^2)/sqrt(pi) 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + ...))))
  let f = 0;
  for (let n = 150; n > 0; n--) f = n / 2 / (x + f);
  return Math.exp(-x * x) / ROOT_PI / (x + f);
}
const erf = x => Math.abs(x) < 2 ? erfSmall(x) : x > 0 ? 1 - erfcLarge(x) : erfcLarge(-x) - 1;
const erfc = x => Math.abs(x) < 2 ? 1 - erfSmall(x) : x > 0 ? erfcLarge(x) : 2 - erfcLarge(-x);
function lgamma(x) {  // Stirling's series above 12, reached by x gamma(x) = gamma(x + 1)
  if (!(x > 0)) return x === 0 ? Infinity : NaN;
  let product = 1;
  while (x < 12) product *= x++;
  const y = 1 / (x * x);
  const tail = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y * (1 / 1188 - y * 691 / 360360))))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + tail - Math.log(product);
}
function gamma(x) {
  if (!(x > 0)) return x === 0 ? Infinity : NaN;
  if (x <= 23 && Number.isInteger(x)) { let p = 1; for (let n = 2; n < x; n++) p *= n; return p; }
  let product = 1;
  while (x < 12) product *= x++;
  const y = 1 / (x * x), half = Math.pow(x, 0.5 * x - 0.25);
  const tail = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y * (1 / 1188 - y * 691 / 360360))))) / x;
  return Math.sqrt(2 * Math.PI) * half * Math.exp(tail - x) * half / product;
}
function bessel(n, x) {  // the mean of cos(n t - x sin t) over a period: exact to rounding once there are points enough
  const size = Math.abs(x);
  if (size > 200) {  // Hankel's asymptotic series
    const mu = 4 * n * n, phase = size - (n / 2 + 0.25) * Math.PI;
    let p = 1, q = 0, term = 1;
    for (let k = 1; k < 12; k++) {
      term *= (mu - (2 * k - 1) ** 2) / (k * 8 * size);
      if (k % 2) q += k % 4 === 1 ? term : -term; else p += k % 4 === 0 ? term : -term;
    }
    const value = Math.sqrt(2 / (Math.PI * size)) * (p * Math.cos(phase) - q * Math.sin(phase));
    return x < 0 && n % 2 ? -value : value;
  }
  const points = Math.ceil(size) + 40;
  let total = 0;
  for (let i = 0; i < points; i++) {
    const t = 2 * Math.PI * (i + 0.5) / points;
    total += Math.cos(n * t - x * Math.sin(t));
  }
  return total / points;
}
const sigmoid = x => x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x));
const OPS = {
  neg: a => -a, add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, div: (a, b) => a / b, pow: Math.pow,
  min: (a, b) => Math.min(a, b), max: (a, b) => Math.max(a, b), less: (a, b) => a < b, less_equal: (a, b) => a <= b, and: (a, b) => a && b, or: (a, b) => a || b,
  where: (c, a, b) => c ? a : b, sin: Math.sin, cos: Math.cos, tan: Math.tan, cot: x => 1 / Math.tan(x), asin: Math.asin, acos: Math.acos,
  atan: Math.atan, sinh: Math.sinh, cosh: Math.cosh, tanh: Math.tanh, asinh: Math.asinh, acosh: Math.acosh, atanh: Math.atanh,
  exp: Math.exp, expm1: Math.expm1, log: Math.log, log1p: Math.log1p, sqrt: Math.sqrt, cbrt: Math.cbrt, hypot: (a, b) => Math.hypot(a, b),
  atan2: (y, x) => Math.atan2(y + 0, x), xlogy: (x, y) => x === 0 ? 0 : x * Math.log(y), sinc: x => x === 0 ? 1 : Math.sin(x) / x,
  erf, erfc, gamma, lgamma, j0: x => bessel(0, x), j1: x => bessel(1, x), sigmoid,
  softplus: x => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))), silu: x => x * sigmoid(x), gelu: x => x * erfc(-x * Math.SQRT1_2) / 2,
  abs: Math.abs, sign: Math.sign, floor: Math.floor,
  round: x => { const f = Math.floor(x), r = x - f; return r < 0.5 ? f : r > 0.5 ? f + 1 : f % 2 ? f + 1 : f; },
  mod: (a, b) => { const r = a % b; return r !== 0 && r < 0 !== b < 0 ? r + b : r; },
};
/* {steps: [["x", i] | ["c", number] | [operation, argument, ..]], outputs: [..]} -> a function of numbers */
function formula(tape) {
  const steps = tape.steps.map(([name, given]) => name === "x" ? x => x[given] : name === "c" ? () => given : null);
  const rules = tape.steps.map(([name]) => Object.hasOwn(OPS, name) ? OPS[name] : null);
  const args = tape.steps.map(([, ...rest]) => rest), values = new Array(steps.length);
  return x => {
    for (let i = 0; i < steps.length; i++) {
      const a = args[i];
      values[i] = steps[i] ? steps[i](x) : rules[i](values[a[0]], values[a[1]], values[a[2]]);
    }
    return tape.outputs.map(i => Number(values[i]));
  };
}
