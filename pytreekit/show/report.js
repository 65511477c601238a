"use strict";
(() => {
  const find = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const input = find("#filter"), split = find("#split"), count = find("#count");
  const pointed = find(".pointed");
  const rows = all("#arrays tbody tr");
  const tiles = all(".tile");

  const starred = text => text.replace(/\d+/g, "*");
  /* A row of several arrays has * where their numbers are. */
  const has = (path, word) => path.includes(word)
    || path.includes("*") && starred(path).includes(starred(word));

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let seen = 0, bytes = 0;
    for (const row of rows) {
      const path = row.dataset.path.toLowerCase();
      const fits = words.every(word => has(path, word))
        && (!split.value || row.dataset.split === split.value);
      row.hidden = !fits;
      if (fits) {
        seen += 1;
        bytes += Number(row.dataset.bytes);
      }
    }
    count.value = `${seen} of ${rows.length} rows, ${bytes.toLocaleString("en")} bytes`;
    const chosen = input.value.trim();
    for (const tile of tiles) {
      tile.setAttribute("aria-pressed", String(chosen !== "" && tile.dataset.path === chosen));
    }
  };

  const choose = tile => {
    const again = tile.getAttribute("aria-pressed") === "true";
    input.value = again ? "" : tile.dataset.path;
    split.value = "";
    show();
  };

  const reach = (tile, focus) => {
    for (const other of tiles) {
      other.tabIndex = other === tile ? 0 : -1;
    }
    if (focus) {
      tile.focus();
    }
  };

  const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
  tiles.forEach((tile, number) => {
    for (const kind of ["focus", "pointerenter"]) {
      tile.addEventListener(kind, () => { pointed.textContent = tile.title; });
    }
    tile.addEventListener("click", () => { reach(tile, false); choose(tile); });
    tile.addEventListener("keydown", event => {
      let next = null;
      if (event.key in steps) {
        next = tiles[(number + steps[event.key] + tiles.length) % tiles.length];
      } else if (event.key === "Home") {
        next = tiles[0];
      } else if (event.key === "End") {
        next = tiles[tiles.length - 1];
      }
      if (next) {
        event.preventDefault();
        reach(next, true);
      }
    });
  });
  if (tiles.length) {
    reach(tiles[0], false);
  }

  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const compare = (one, other) =>
    typeof one === "number" ? one - other : one.localeCompare(other, "en", {numeric: true});

  for (const button of all("th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), table = button.closest("table");
      const down = head.getAttribute("aria-sort") !== "descending";
      const ascending = head.classList.contains("number") ? !down
        : head.getAttribute("aria-sort") !== "ascending";
      for (const other of all("th", find("thead", table))) {
        other.removeAttribute("aria-sort");
      }
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const sign = ascending ? 1 : -1, column = head.cellIndex, body = table.tBodies[0];
      const sorted = [...body.rows].sort(
        (a, b) => sign * compare(value(a, column), value(b, column)));
      body.append(...sorted);
    });
  }

  input.addEventListener("input", show);
  split.addEventListener("change", show);
  find("form").addEventListener("submit", event => event.preventDefault());
  find("form").addEventListener("reset", () => setTimeout(show));
  show();
})();
