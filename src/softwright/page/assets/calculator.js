/* A calculator: the network of every key runs here, beside the formula that it was compiled from. */
{
  const fields = [$("x"), $("y")];
  const keys = D.keys.map(key => {
    const exact = formula(key.exact), bands = key.bands.map(formula);
    const net = key.layers ? x => times(streams(key, x).at(-1), key.read) : layerOfHeads(key).net;
    return {...key, net: x => net(x)[0], target: x => exact(x)[0], close: x => bands.some(band => Math.abs(band(x)[0]) < key.gap)};
  });
  let chosen = 0;
  const buttons = keys.map((key, i) => el("button", {type: "button", title: key.formula, onclick: () => { chosen = i; show(); }}, key.key));
  $("keys").append(...buttons);
  const typed = (key, given) => key.names.map((_, i) => given[i].trim() === "" ? NaN : Number(given[i]));
  /* Where nothing is proved, and why; empty where the bound holds. */
  function beyond(key, x) {
    const out = key.names.filter((_, i) => !(key.sides[i][0] <= x[i] && x[i] <= key.sides[i][1]));
    if (out.length) return `${out.join(" and ")} outside of the set of the proof`;
    return key.close(x) ? `the numbers compared are within ${fmt(key.gap)} of each other` : "";
  }
  function show() {
    const key = keys[chosen], x = typed(key, fields.map(f => f.value)), two = key.names.length > 1;
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
    fields.forEach((field, i) => {
      field.disabled = i >= key.names.length;
      if (!field.disabled) [field.min, field.max] = key.sides[i];
    });
    if (!x.every(Number.isFinite)) {
      $("answers").replaceChildren();
      $("holds").textContent = `Type ${two ? "two numbers" : "a number"}: ${key.names.map((name, i) => `${name} from ${key.sides[i][0]} to ${key.sides[i][1]}`).join(", ")}.`;
      return say($("holds").textContent);
    }
    const answer = key.net(x), wanted = key.target(x), reason = beyond(key, x);
    fill($("answers"), ["", key.formula], [
      {hot: true, cells: ["attention", fmt(answer, 15)]},
      {cells: ["by the formula", fmt(wanted, 15)]},
      {cells: ["they differ by", fmt(Math.abs(answer - wanted), 3)]},
      {cells: ["proved at most", reason ? "nothing" : fmt(key.bound, 3)]},
    ]);
    $("holds").textContent = reason ? `Nothing is proved here: ${reason}.` : "";
    say(`attention ${fmt(answer, 8)}, ${reason ? "nothing is proved here" : `proved within ${fmt(key.bound, 2)}`}`);
  }
  fields.forEach((field, i) => {
    const side = keys.map(key => key.sides[i]).find(Boolean);
    field.value = side ? fmt(side[0] + (i ? 0.5 : 2 / 3) * (side[1] - side[0]), 6) : "";
    field.addEventListener("input", show);
  });
  softwright.press = (name, x) => {
    const key = keys.find(one => one.key === name);
    return {answer: key.net(x), exact: key.target(x), beyond: beyond(key, x)};
  };
  show();
}
