"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const make = (name, text) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const svg = document.getElementById("losses");
  const values = data.losses.flatMap((each) => [each.original, each.migrated]).filter(Number.isFinite);
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const curve = (side, colour, dash) => {
    const points = data.losses
      .map((each, at) => [each[side], at])
      .filter(([value]) => Number.isFinite(value))
      .map(([value, at]) => `${10 + (580 * at) / Math.max(data.losses.length - 1, 1)},${190 - (180 * (value - low)) / span}`);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", points.join(" "));
    line.setAttribute("fill", "none");
    line.style.stroke = `var(--${colour})`;
    line.style.strokeWidth = 2;
    if (dash) line.setAttribute("stroke-dasharray", "6 4");
    svg.append(line);
  };
  curve("original", "automatic", false);
  curve("migrated", "blocking", true);

  const colour = (units) => {
    const share = Number.isFinite(units) ? Math.min(Math.max(Math.log10(units + 1e-3) + 3, 0) / 6, 1) : 1;
    return units > 1 || !Number.isFinite(units) ? `hsl(${20 - 20 * share} 75% ${65 - 20 * share}%)` : `hsl(150 45% ${88 - 40 * share}%)`;
  };
  const numbers = document.getElementById("numbers");
  const side = (name, tensor) =>
    `${name.padEnd(9)} ${tensor.dtype} [${tensor.shape}]  norm ${tensor.norm}  largest ${tensor.largest}  not finite ${tensor.unfinite}\n` +
    `          first ${tensor.first.join(", ")}\n          ${(tensor.stack || []).join("\n          ")}\n`;
  const show = (place, cell) => {
    numbers.textContent =
      ` ${place.kind} of ${place.name}, step ${cell.step}: error ${cell.error} of the norm, tolerance ${cell.tolerance}\n ` +
      `${side("original", cell.original)} ${side("migrated", cell.migrated)}`;
  };
  const body = document.querySelector("#heat tbody");
  for (const place of data.places) {
    const row = make("tr");
    row.append(make("th", `${place.kind} ${place.name}`));
    const cells = new Map(place.steps.map((cell) => [cell.step, cell]));
    for (let step = 1; step <= data.steps; step += 1) {
      const box = make("td");
      const cell = cells.get(step);
      if (cell) {
        const button = make("button", "\u00a0");
        button.type = "button";
        button.style.cssText = "width: 1.2rem; border: 0; cursor: pointer";
        button.style.background = colour(cell.units);
        button.title = `step ${step}: ${cell.units}`;
        button.setAttribute("aria-label", `${place.kind} ${place.name}, step ${step}: ${cell.units}`);
        button.addEventListener("click", () => show(place, cell));
        box.append(button);
      }
      row.append(box);
    }
    body.append(row);
  }
})();
