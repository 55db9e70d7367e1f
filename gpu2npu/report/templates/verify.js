"use strict";
(() => {
  const _ = (text, ...values) => (words[text] ?? text).replace(/\{(\d+)\}/g, (_whole, index) => values[index]);
  const data = JSON.parse(document.getElementById("data").textContent);
  const named = (place) => (place.kind === place.name ? _(place.kind) : _("{0} of {1}", _(place.kind), place.name));
  const make = (name, text) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // The losses: numbers at the axes, a curve for each program.
  const svg = document.getElementById("losses");
  const [left, right, top, bottom] = [70, 630, 10, 205];
  const draw = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
    return element;
  };
  const ticks = (low, high, smallest) => {
    const about = (high - low) / 8;
    const power = 10 ** Math.floor(Math.log10(about || 1));
    const gap = Math.max([1, 2, 5, 10].find((each) => each * power >= about) * power, smallest);
    const found = [];
    for (let at = Math.ceil(low / gap - 1e-6); at * gap <= high + gap / 1e6; at += 1) found.push(Number((at * gap).toPrecision(12)));
    return found;
  };
  const values = data.losses.flatMap((each) => [each.original, each.migrated]).filter(Number.isFinite);
  if (values.length) {
    const middle = (Math.min(...values) + Math.max(...values)) / 2;
    const half = (Math.max(...values) - Math.min(...values)) / 2 || Math.abs(middle) / 10 || 1;
    const [low, high, last] = [middle - half, middle + half, Math.max(data.losses.length, 2)];
    const x = (step) => left + ((right - left) * (step - 1)) / (last - 1);
    const y = (loss) => bottom - ((bottom - top) * (loss - low)) / (high - low);
    for (const loss of ticks(low, high, 0)) {
      draw("line", { x1: left, x2: right, y1: y(loss), y2: y(loss), stroke: "var(--line)" });
      draw("text", { x: left - 8, y: y(loss) + 4, "text-anchor": "end" }, loss);
    }
    for (const step of ticks(1, data.losses.length, 1)) draw("text", { x: x(step), y: bottom + 17, "text-anchor": "middle" }, step);
    draw("text", { x: right, y: bottom + 32, "text-anchor": "end" }, _("step"));
    for (const [side, colour, dash] of [["original", "automatic", ""], ["migrated", "blocking", "6 4"]]) {
      const points = data.losses.filter((each) => Number.isFinite(each[side])).map((each) => `${x(each.step)},${y(each[side])}`);
      const line = { points: points.join(" "), fill: "none", stroke: `var(--${colour})`, "stroke-width": 2, "stroke-dasharray": dash };
      draw("polyline", { ...line, "data-side": side });
    }
  }

  // The heat map, and what a cell stands for.
  const colour = (units) => {
    const share = Number.isFinite(units) ? Math.min(Math.max(Math.log10(units + 1e-3) + 3, 0) / 6, 1) : 1;
    return units > 1 || !Number.isFinite(units) ? `hsl(${20 - 20 * share} 75% ${65 - 20 * share}%)` : `hsl(150 45% ${88 - 40 * share}%)`;
  };
  const chosen = document.getElementById("chosen");
  const code = (side, stack) => {
    const [, path, number] = /^(.*):(\d+)$/.exec(stack[0]);
    const box = make("pre");
    box.tabIndex = 0;
    for (const [line, text] of Object.entries(data.sources[side][path] || {})) {
      if (Math.abs(line - number) > 3) continue;
      const row = make("span", `${line}  ${text}`);
      if (line === number) row.className = "here";
      box.append(row);
    }
    return box;
  };
  const show = (place, cell) => {
    const heading = _("{0}, step {1}: error {2} of the norm, tolerance {3}", named(place), cell.step, cell.error, cell.tolerance);
    chosen.replaceChildren(make("h3", heading));
    for (const side of ["original", "migrated"]) {
      const tensor = cell[side];
      const stack = tensor.stack || [];
      chosen.append(make("p", _("{0}: {1} [{2}], norm {3}, largest {4}, not finite {5}, first {6}", _(side), tensor.dtype, tensor.shape, tensor.norm,
        tensor.largest, tensor.unfinite, tensor.first.join(", "))));
      if (!stack.length) continue;
      const where = make("p", stack.join(`, ${_("called at")} `));
      where.className = "soft";
      chosen.append(where, code(side, stack));
    }
  };
  const body = document.querySelector("#heat tbody");
  for (const place of data.places) {
    const row = make("tr");
    row.append(make("th", `${named(place)}`));
    const cells = new Map(place.steps.map((cell) => [cell.step, cell]));
    for (let step = 1; step <= data.steps; step += 1) {
      const box = make("td");
      const cell = cells.get(step);
      if (cell) {
        const button = make("button", "\u00a0");
        button.type = "button";
        button.style.background = colour(cell.units);
        button.title = _("step {0}: {1}", step, cell.units);
        button.setAttribute("aria-label", `${named(place)}, ${_("step {0}: {1}", step, cell.units)}`);
        button.addEventListener("click", () => {
          show(place, cell);
          button.scrollIntoView({ block: "nearest", inline: "nearest" }); // above what is shown
        });
        box.append(button);
      }
      row.append(box);
    }
    body.append(row);
  }
})();
