(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);

  // What opens is loaded when it is opened first: a script beside the page calls `part` with its name
  // and its packed text. From disk a browser reads no other kind of file beside a page.
  const waiting = new Map();
  window.part = (name, packed) => waiting.get(name)?.fill(packed);
  const inflate = async (packed) => {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };
  const load = (part) => {
    const name = part.dataset.part;
    if (waiting.has(name)) return waiting.get(name).done;
    const body = part.querySelector(":scope > .body");
    const entry = {};
    entry.done = new Promise((resolve) => {
      entry.fill = async (packed) => {
        body.innerHTML = await inflate(packed);
        if (name === "matrix") filter();
        resolve();
      };
      const script = document.createElement("script");
      script.src = `details/${part.dataset.file}.js`;
      script.addEventListener("error", () => {
        body.textContent = `details/${part.dataset.file}.js is not beside this page.`;
        waiting.delete(name);
        resolve();
      });
      document.head.append(script);
    });
    waiting.set(name, entry);
    return entry.done;
  };
  document.addEventListener(
    "toggle",
    (event) => event.target.open && event.target.dataset.part && load(event.target),
    true,
  );

  // Filters: a case stays if family, outcome and text all match; so does its row of the matrix.
  const cases = [...document.querySelectorAll("details.case")];
  const filter = () => {
    const family = $("family").value;
    const outcome = $("outcome").value;
    const words = $("text").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of cases) {
      const text = `${item.id.toLowerCase()} ${item.dataset.text}`;
      const fits =
        (!family || item.dataset.family === family) &&
        (!outcome || item.dataset.outcomes.split(" ").includes(outcome)) &&
        words.every((word) => text.includes(word));
      item.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    const left = new Set(cases.filter((item) => !item.hidden).map((item) => item.id));
    for (const row of document.querySelectorAll("tr.row")) row.hidden = !left.has(row.dataset.id);
    for (const body of document.querySelectorAll(".matrix tbody")) {
      body.hidden = !body.querySelector("tr.row:not([hidden])");
    }
    $("shown").textContent = `${shown} of ${cases.length} cases`;
    const query = new URLSearchParams({ family, outcome, text: $("text").value });
    for (const key of [...query.keys()]) if (!query.get(key)) query.delete(key);
    const address = `${location.pathname}${query.size ? `?${query}` : ""}${location.hash}`;
    try {
      history.replaceState(null, "", address);
    } catch {
      // A browser may refuse this for a page on disk; the filter works all the same.
    }
  };
  for (const [key, value] of new URLSearchParams(location.search)) {
    if (["family", "outcome", "text"].includes(key)) $(key).value = value;
  }
  $("filters").addEventListener("input", filter);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  filter();

  // A link into something closed opens it, and loads what has to be there first.
  const reveal = async () => {
    let id = location.hash.slice(1);
    try {
      id = decodeURIComponent(id);
    } catch {
      return;
    }
    const around = id && ($(id) ?? $(id.split("@")[0]));
    if (!around) return;
    if (around.dataset.part) await load(around);
    const target = $(id) ?? around;
    for (let part = target; part; part = part.parentElement) {
      part.hidden = false;
      if (part instanceof HTMLDetailsElement) part.open = true;
    }
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) reveal();
  });
  reveal();

  // Titles as a tooltip that comes at once and shows its lines; keyboard users get it too.
  const tip = $("tip");
  const show = (event) => {
    const cell = event.target.closest("main [title], main [data-tip]");
    if (!cell) return;
    if (cell.title) {
      cell.dataset.tip = cell.title;
      cell.removeAttribute("title");
    }
    tip.textContent = cell.dataset.tip;
    tip.hidden = false;
    const box = cell.getBoundingClientRect();
    const left = Math.min(box.left, innerWidth - tip.offsetWidth - 12);
    const below = box.bottom + tip.offsetHeight + 12 < innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - tip.offsetHeight - 6)}px`;
  };
  const hide = () => {
    tip.hidden = true;
  };
  for (const name of ["mouseover", "focusin"]) document.addEventListener(name, show);
  for (const name of ["mouseout", "focusout"]) document.addEventListener(name, hide);
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
})();
