/* What is proved after every layer, or of every block. */
if (D.through.length) {
  const plot = new Plot($("through"), 70), top = Math.max(...D.through.map(([, v]) => Math.log10(v || 1e-300))), low = top - 4;
  const draw = () => {
    const g = plot.begin([0, D.through.length], [Math.min(low, ...D.through.map(([, v]) => Math.log10(v || 1e-300))) - 0.3, top + 0.3], false), wide = (plot.w - plot.left - plot.right) / D.through.length;
    D.through.forEach(([, v], i) => { g.fillStyle = colour("net"); const y = plot.Y(Math.log10(v || 1e-300)); g.fillRect(plot.left + i * wide + 2, y, Math.max(1, wide - 4), plot.h - plot.bottom - y); });
    g.fillStyle = colour("soft"); g.textAlign = "right";
    for (let q = 0; q <= 3; q++) { const v = plot.y[0] + (plot.y[1] - plot.y[0]) * q / 3; g.fillText(fmt(10 ** v, 2), plot.left - 5, clamp(plot.Y(v) + 4, 16, plot.h)); }
    g.textAlign = "left";
  };
  fill($("steps"), ["where", "proved, at most"], D.through.map(([name, v]) => ({cells: [name.replace(/^error /, ""), fmt(v, 5)]})));
  drawn.push(draw);
  draw();
} else $("through-box").hidden = true;
