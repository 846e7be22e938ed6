"use strict";
(() => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const KEY = "hakobench-theme";

  // A browser can forbid storage for files; the page then only forgets the choice.
  const remember = (theme) => { try { localStorage.setItem(KEY, theme); } catch { /* forgets */ } };
  const remembered = () => { try { return localStorage.getItem(KEY); } catch { return null; } };

  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  button.hidden = false;
  label();
  system.addEventListener("change", label);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    label();
  });

  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? collator.compare(a, b) : x - y;
  };
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

  // Cells without a value stay below the others, whichever way is up. What a cell shows is its value where nothing
  // else is said.
  const NOTHING = "\u2013";
  const sort = (table, column, order, original) => {
    const value = ({ cells: { [column]: cell } }) => {
      const text = cell.dataset.value ?? cell.textContent.trim();
      return text === NOTHING ? "" : text;
    };
    const sign = order === "descending" ? -1 : 1;
    const rows = [...original];
    if (order !== "none") {
      rows.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        return sign * compare(x, y);
      });
    }
    table.tBodies[0].append(...rows);
  };
  // The many tables of raw rows come without buttons.
  const buttonOf = (head) => {
    const found = head.querySelector("button");
    if (found) return found;
    const made = document.createElement("button");
    made.type = "button";
    made.append(...head.childNodes);
    head.append(made);
    head.setAttribute("aria-sort", "none");
    return made;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const original = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => buttonOf(head).addEventListener("click", () => {
      const order = NEXT[head.getAttribute("aria-sort")];
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", order);
      sort(table, column, order, original);
    }));
  }

  // Figures of the first table as multiples of one allocator's.
  const relative = document.getElementById("relative");
  const cells = [...document.querySelectorAll("#speed td[data-of]")].map((cell) => {
    const link = cell.querySelector("a");
    return { cell, link, row: cell.parentElement, figure: link.textContent, value: Number(cell.dataset.value) };
  });
  const show = (base) => {
    const bases = new Map(cells.filter(({ cell }) => cell.dataset.of === base).map(({ row, value }) => [row, value]));
    for (const { cell, link, row, figure, value } of cells) {
      const other = bases.get(row);
      const ratio = "less" in row.dataset ? other / value : value / other;
      if (base === "") link.textContent = figure;
      else link.textContent = Number.isFinite(ratio) ? ratio.toFixed(2) : NOTHING;
      cell.dataset.value = base === "" ? value : Number.isFinite(ratio) ? ratio : "";
    }
  };
  relative.hidden = false;
  relative.querySelector("select").addEventListener("change", (event) => show(event.target.value));

  // On a wide screen all sections but the raw rows are open. On a phone their heads are the contents.
  const WIDE = 900; // pixels
  for (const fold of document.querySelectorAll("details.fold"))
    fold.open = innerWidth >= WIDE && fold.parentElement.id !== "raw";

  // A box that is wider than the screen says so.
  const hint = (box) => { box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 4); };
  const boxes = [...document.querySelectorAll(".scroll")];
  for (const box of boxes) box.addEventListener("scroll", () => hint(box), { passive: true });
  const hintAll = () => boxes.forEach(hint);
  window.addEventListener("resize", hintAll);
  for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", hintAll);
  hintAll();

  // A link into the raw rows opens what it leads to.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const own = target?.querySelector(":scope > details.fold");
    let details = own ?? target?.closest("details");
    if (!details) return;
    for (; details; details = details.parentElement.closest("details")) details.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  reveal();
})();
