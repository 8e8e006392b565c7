"use strict";
for (const input of document.querySelectorAll("[data-table]")) {
  input.addEventListener("input", () => {
    const table = document.getElementById(input.dataset.table), rows = table.tBodies[0].rows;
    const of = [...document.querySelectorAll("[data-table]")].filter((each) => each.dataset.table === table.id);
    let left = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !of.every((each) => each.dataset.column === undefined
        ? each.value.toLowerCase().split(/\s+/).every((word) => text.includes(word))
        : each.value === "" || row.cells[each.dataset.column].textContent === each.value);
      left += row.hidden ? 0 : 1;
    }
    document.querySelector(`output[for="${table.id}"]`).textContent = `${left} of ${rows.length} rows`;
  });
}
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0], place = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[place].dataset.v ?? row.cells[place].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)], number = x !== "" && y !== "" ? x - y : NaN;
      return (isNaN(number) ? x.localeCompare(y) : number) * (down ? -1 : 1);
    });
    body.append(...rows);
  });
}
const tip = document.getElementById("tip");
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest?.("figure [aria-label]:not([role=img])");
  tip.hidden = !mark || mark.closest("[aria-hidden=true]") === null;
  if (tip.hidden) return;
  tip.textContent = mark.getAttribute("aria-label");
  const x = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
  tip.style.setProperty("left", `${Math.max(8, x)}px`);
  tip.style.setProperty("top", `${event.clientY + 16}px`);
});
