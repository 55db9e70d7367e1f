"use strict";
(() => {
  const _ = (text, ...values) => (words[text] ?? text).replace(/\{(\d+)\}/g, (_whole, index) => values[index]);
  const details = JSON.parse(document.getElementById("data").textContent);
  const rows = [...document.querySelectorAll("#files tbody tr")];
  const search = document.getElementById("search");
  const kinds = [...document.querySelectorAll(".kind")];

  const make = (name, className, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const filter = () => {
    const word = search.value.trim().toLowerCase();
    const wanted = kinds.filter((box) => box.checked).map((box) => box.value);
    let shown = 0;
    for (const row of rows) {
      const has = row.dataset.kinds.split(" ");
      const fits = row.dataset.path.includes(word) && (!wanted.length || wanted.some((kind) => has.includes(kind)));
      row.hidden = !fits;
      if (row.nextElementSibling?.classList.contains("details")) row.nextElementSibling.hidden = !fits;
      shown += fits;
    }
    document.getElementById("shown").textContent = _("files shown: {0} of {1}", shown, rows.length);
  };

  const finding = (found) => {
    const box = make("div", `finding ${found.kind}`);
    const head = make("p");
    head.append(make("b", found.severity, _(found.severity)), ` ${found.api} `, make("span", "soft", `${found.where} · ${found.rule}`));
    const code = make("pre");
    code.tabIndex = 0;
    found.code.forEach((line, index) => {
      const number = found.first + index;
      code.append(make("span", number === found.line ? "here" : "", `${String(number).padStart(5)}  ${line}`));
    });
    box.append(head, make("p", "", found.message), code);
    return box;
  };

  /* A unified diff as pairs of lines: what is taken out beside what is put in. */
  const pairs = (diff) => {
    const found = [];
    let [left, right, removed, added] = [0, 0, [], []];
    const flush = () => {
      for (let i = 0; i < Math.max(removed.length, added.length); i++) found.push([removed[i], added[i]]);
      [removed, added] = [[], []];
    };
    for (const line of diff.split("\n")) {
      const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
      if (hunk) {
        flush();
        [left, right] = [Number(hunk[1]), Number(hunk[2])];
        found.push(line);
      } else if (!left && !right) {
        continue; // the names of the files
      } else if (line.startsWith("-")) removed.push([left++, line.slice(1), "removed"]);
      else if (line.startsWith("+")) added.push([right++, line.slice(1), "added"]);
      else if (line.startsWith(" ")) {
        flush();
        found.push([[left++, line.slice(1), ""], [right++, line.slice(1), ""]]);
      }
    }
    flush();
    return found;
  };

  const sideBySide = (diff) => {
    const table = make("table", "diff");
    const columns = make("colgroup");
    columns.append(make("col", "no"), make("col"), make("col", "no"), make("col"));
    table.append(columns);
    const body = table.createTBody();
    for (const pair of pairs(diff)) {
      const row = body.insertRow();
      if (typeof pair === "string") {
        row.className = "hunk";
        row.append(Object.assign(make("td", "", pair), { colSpan: 4 }));
        continue;
      }
      for (const side of pair) {
        const [number, text, kind] = side ?? ["", "", ""];
        row.append(make("td", "no", number), make("td", kind, text));
      }
    }
    return table;
  };

  const open = (button) => {
    const row = button.closest("tr");
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) {
      row.nextElementSibling.remove();
      return;
    }
    const file = details[Number(button.dataset.file)];
    const below = make("tr", "details");
    const cell = Object.assign(make("td"), { colSpan: row.cells.length });
    cell.append(...file.findings.map(finding));
    if (file.diff) cell.append(make("h3", "", _("What a migration changes")), sideBySide(file.diff));
    below.append(cell);
    row.after(below);
  };

  search.addEventListener("input", filter);
  kinds.forEach((box) => box.addEventListener("change", filter));
  document.querySelector("#files tbody").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-file]");
    if (button) open(button);
  });
  filter();
})();
