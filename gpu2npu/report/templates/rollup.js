"use strict";
(() => {
  const _ = (text, ...values) => (words[text] ?? text).replace(/\{(\d+)\}/g, (_whole, index) => values[index]);
  const body = document.querySelector("#repositories tbody");
  const rows = [...body.rows];
  const search = document.getElementById("search");
  const only = document.getElementById("only");

  const filter = () => {
    const word = search.value.trim().toLowerCase();
    rows.forEach((row) => {
      row.hidden = !row.dataset.path.includes(word) || (only.value !== "" && row.dataset.verdict !== only.value);
    });
    document.getElementById("shown").textContent =
      _("repositories shown: {0} of {1}", rows.filter((row) => !row.hidden).length, rows.length);
  };

  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.classList.contains("n") ? Number(cell.dataset.value ?? cell.textContent) : cell.textContent.trim();
  };

  /* Numbers go down the first time, names up. */
  const sort = (button) => {
    const head = button.parentElement;
    const column = head.cellIndex;
    const first = head.classList.contains("n") ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [value(a, column), value(b, column)];
      return sign * (typeof x === "number" ? x - y : x.localeCompare(y));
    });
    body.append(...rows);
  };

  document.querySelectorAll("#repositories th button").forEach((button) => {
    button.addEventListener("click", () => sort(button));
  });
  search.addEventListener("input", filter);
  only.addEventListener("change", filter);
  filter();
})();
