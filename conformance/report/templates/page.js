(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);

  // Filters: a row stays if family, status and text all match.
  const rows = [...document.querySelectorAll("tr.row")];
  const matrix = document.querySelector(".matrix");
  const filter = () => {
    const family = $("family").value;
    const status = $("status").value;
    const words = $("text").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits =
        (!family || row.parentElement.dataset.family === family) &&
        (!status || row.dataset.marks.split(" ").includes(status)) &&
        words.every((word) => row.dataset.text.includes(word));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    for (const body of document.querySelectorAll(".matrix tbody")) {
      body.hidden = !body.querySelector("tr.row:not([hidden])");
    }
    for (const cell of matrix.querySelectorAll("a.mark")) {
      cell.classList.toggle("dim", Boolean(status) && !cell.classList.contains(status));
    }
    $("shown").textContent = `${shown} of ${rows.length} cases`;
  };
  $("filters").addEventListener("input", filter);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  filter();

  // The cases of a large page are packed, each by itself; one is unpacked when it is opened first.
  const inflate = async (packed) => {
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    packed.insertAdjacentHTML("beforebegin", await new Response(stream).text());
    packed.remove();
  };
  const unpacking = new Map();
  const unpack = (part) => {
    const packed = part.querySelector("script.packed");
    if (packed && !unpacking.has(part)) unpacking.set(part, inflate(packed));
    return unpacking.get(part);
  };
  document.addEventListener(
    "toggle",
    (event) => event.target.matches("details.case") && unpack(event.target),
    true,
  );

  // A link into a closed case opens it.
  const reveal = async () => {
    let id = location.hash.slice(1);
    try {
      id = decodeURIComponent(id);
    } catch {
      return;
    }
    const around = $(id.split("@")[0]);
    if (around?.matches("details.case")) await unpack(around);
    const target = id && $(id);
    if (!target) return;
    for (let part = target; part; part = part.parentElement) {
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

  // The matrix' titles as a tooltip that comes at once and shows its lines; keyboard users get it too.
  const tip = $("tip");
  const show = (event) => {
    const cell = event.target.closest(".matrix a.mark, .grid [title], .grid [data-tip]");
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
