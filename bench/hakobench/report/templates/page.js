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

  // A link into the raw rows opens what it leads to.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const details = target?.closest("details");
    if (!details) return;
    details.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  reveal();
})();
