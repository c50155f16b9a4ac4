(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);

  // What opens is loaded when it is opened first: a script beside the page calls `part` with its name
  // and its packed text. From disk a browser reads no other kind of file beside a page.
  const waiting = new Map();
  window.part = (name, packed) => waiting.get(name)?.(packed);
  const inflate = async (packed) => {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };
  const read = (name, file) =>
    new Promise((resolve, reject) => {
      waiting.set(name, (packed) => resolve(inflate(packed)));
      const script = document.createElement("script");
      script.src = `details/${file}.js`;
      script.addEventListener("error", () =>
        reject(new Error(`details/${file}.js is not beside this page.`)),
      );
      document.head.append(script);
    });
  const load = (part) => {
    const body = part.querySelector(":scope > .body");
    if (!part.loading) {
      part.loading = read(part.id, part.dataset.file).then(
        (text) => {
          body.innerHTML = text;
          beside(body);
          reachable();
        },
        (error) => {
          body.textContent = error.message;
          part.loading = null;
        },
      );
    }
    return part.loading;
  };

  // Two programs beside each other. Lines that both have stand in one row (the longest common
  // sequence of lines); all others are marked.
  const rows = (left, right) => {
    const found = [];
    let start = 0;
    while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
    let [a, b] = [left.length, right.length];
    while (a > start && b > start && left[a - 1] === right[b - 1]) [a, b] = [a - 1, b - 1];
    const [n, m] = [a - start, b - start];
    const common = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
    for (let i = n - 1; i >= 0; i -= 1) {
      for (let j = m - 1; j >= 0; j -= 1) {
        common[i][j] =
          left[start + i] === right[start + j]
            ? common[i + 1][j + 1] + 1
            : Math.max(common[i + 1][j], common[i][j + 1]);
      }
    }
    for (let i = 0; i < start; i += 1) found.push([left[i], right[i]]);
    let [i, j] = [0, 0];
    let [ours, theirs] = [[], []];
    const flush = () => {
      for (let k = 0; k < Math.max(ours.length, theirs.length); k += 1) {
        found.push([ours[k] ?? null, theirs[k] ?? null, true]);
      }
      [ours, theirs] = [[], []];
    };
    while (i < n || j < m) {
      if (i < n && j < m && left[start + i] === right[start + j]) {
        flush();
        found.push([left[start + i], right[start + j]]);
        [i, j] = [i + 1, j + 1];
      } else if (j >= m || (i < n && common[i + 1][j] >= common[i][j + 1])) {
        ours.push(left[start + i]);
        i += 1;
      } else {
        theirs.push(right[start + j]);
        j += 1;
      }
    }
    flush();
    for (let k = a; k < left.length; k += 1) found.push([left[k], right[b + k - a]]);
    return found;
  };
  const beside = (body) => {
    const sides = [...body.querySelectorAll(".program")];
    if (sides.length !== 2) return;
    const selects = sides.map((side) => side.querySelector("select"));
    const texts = selects.map((select) => {
      const all = [...body.querySelectorAll(".sources > div")];
      const source = all.find((part) => part.dataset.variant === select.value);
      return (source?.firstElementChild?.innerHTML ?? "").split("\n");
    });
    const found = rows(...texts);
    sides.forEach((side, number) => {
      const lines = found.map((row) => {
        const made = document.createElement("span");
        made.className = row[2] && row[number] !== null ? "line changed" : "line";
        if (row[2]) made.dataset.sign = number ? "+" : "\u2212";
        if (row[number] !== null) made.innerHTML = `${row[number]}\n`;
        return made;
      });
      side.querySelector("pre").replaceChildren(...lines);
      const file = side.querySelector(".file");
      if (file) file.href = selects[number].selectedOptions[0]?.dataset.link ?? "";
    });
  };
  // The two variants that are compared above, where a case has programs of both.
  const choose = (body) => {
    for (const side of ["left", "right"]) {
      const select = body.querySelector(`select[data-side="${side}"]`);
      const wanted = $(side).value;
      if (select && [...select.options].some((option) => option.value === wanted)) select.value = wanted;
    }
    beside(body);
  };
  document.addEventListener("change", ({ target }) => {
    if (target.dataset.side) beside(target.closest(".body"));
  });
  document.addEventListener("click", async ({ target }) => {
    if (!target.matches(".copy")) return;
    const program = target.closest(".program") ?? target.parentElement;
    const text = target.dataset.text ?? program.querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
      target.textContent = "Copied";
    } catch {
      target.textContent = "Select the text and copy it";
    }
    setTimeout(() => (target.textContent = "Copy"), 1500);
  });
  const address = (rest) => {
    try {
      history.replaceState(null, "", `${location.pathname}${rest}`);
    } catch {
      // A browser may refuse this for a page on disk; everything else works all the same.
    }
  };
  document.addEventListener(
    "toggle",
    ({ target }) => {
      if (!target.open || !target.dataset.file) return;
      load(target);
      // The address of what is open can be sent as a link.
      if (target.matches(".framework > details, .case") && !location.hash.startsWith(`#${encodeURI(target.id)}`)) {
        address(`${location.search}#${encodeURI(target.id)}`);
      }
    },
    true,
  );

  // Outcomes of the chosen variant by case, from the file of its framework.
  const known = new Map();
  const outcomesOf = async (select) => {
    const { value, parentElement: group } = select.selectedOptions[0];
    if (!known.has(group.label)) {
      known.set(group.label, read(`outcomes=${group.label}`, group.dataset.file).then(JSON.parse));
    }
    return (await known.get(group.label))[value] ?? {};
  };

  // Filters: a case is shown if family, outcome (on the variant, or on any) and text all match.
  const FILTERS = ["family", "variant", "outcome", "text"];
  const cases = [...document.querySelectorAll("details.case")];
  $("variant").innerHTML = $("left").innerHTML;
  $("variant").options[0].text = "any";
  const filter = async () => {
    const [family, variant, outcome, text] = FILTERS.map((name) => $(name).value);
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const of = variant ? await outcomesOf($("variant")) : null;
    if (variant !== $("variant").value) return; // another choice was made meanwhile
    let shown = 0;
    for (const item of cases) {
      const said = `${item.querySelector("summary").textContent} ${item.dataset.text}`.toLowerCase();
      const outcomes = of ? (of[item.id] ?? []).slice(1, 2) : item.dataset.outcomes.split(" ");
      const fits =
        (!family || item.id.startsWith(`${family}/`)) &&
        (outcome ? outcomes.includes(outcome) : outcomes.length > 0) &&
        words.every((word) => said.includes(word));
      item.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    $("shown").textContent = `${shown} of ${cases.length} cases`;
    const query = new URLSearchParams({ family, variant, outcome, text });
    for (const key of [...query.keys()]) if (!query.get(key)) query.delete(key);
    address(`${query.size ? `?${query}` : ""}${location.hash}`);
  };
  for (const [key, value] of new URLSearchParams(location.search)) {
    if (FILTERS.includes(key)) $(key).value = value;
  }
  $("filters").addEventListener("input", filter);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  filter();

  // Two variants: the cases that differ, sorted by severity.
  const cell = ([rank, name, sign, words, message]) => {
    const found = document.createElement("td");
    found.className = "words";
    const badge = document.createElement("span");
    badge.className = `badge o-${name}`;
    badge.textContent = `${sign} ${words}`;
    found.append(badge, message ? ` ${message}` : "");
    return found;
  };
  const link = (id, text) => {
    const made = document.createElement("a");
    made.href = `#${encodeURIComponent(id)}`;
    made.textContent = text;
    return made;
  };
  const differ = async () => {
    const sides = [$("left"), $("right")];
    if (sides.some((side) => !side.value)) return;
    const names = sides.map((side) => side.value);
    let both;
    try {
      both = await Promise.all(sides.map(outcomesOf));
    } catch (error) {
      $("differ").textContent = error.message;
      return;
    }
    if (sides.some((side, i) => side.value !== names[i])) return; // another choice was made meanwhile
    const [left, right] = both;
    const shared = Object.keys(left).filter((id) => id in right);
    const apart = shared.filter((id) => left[id][1] !== right[id][1]);
    const rank = (id) => Math.min(left[id][0], right[id][0]);
    apart.sort((a, b) => rank(a) - rank(b));
    $("differ").textContent = `${apart.length} of ${shared.length} cases differ`;
    const table = document.createElement("table");
    table.className = "grid wide stacked";
    const head = table.createTHead().insertRow();
    for (const name of ["case", ...names]) {
      const th = document.createElement("th");
      th.textContent = name;
      th.scope = "col";
      head.append(th);
    }
    const body = table.createTBody();
    // Cases with the same outcomes and observations share a row.
    const alike = Map.groupBy(apart, (id) => JSON.stringify([left[id], right[id]]));
    for (const ids of alike.values()) {
      const row = body.insertRow();
      const first = row.insertCell();
      first.className = "words";
      first.append($(ids[0])?.querySelector(".title")?.textContent ?? "");
      for (const id of ids.slice(0, 4)) first.append(first.childNodes.length ? "\n" : "", link(id, id));
      if (ids.length > 4) first.append(`\nand ${ids.length - 4} more`);
      first.append("\n", link(`${ids[0]}:programs`, "both programs"));
      row.append(cell(left[ids[0]]), cell(right[ids[0]]));
    }
    $("differences").replaceChildren(table);
    reachable();
  };
  $("choose").addEventListener("input", differ);
  $("choose").addEventListener("submit", (event) => event.preventDefault());

  // A link to something closed loads and opens it.
  const reveal = async () => {
    let id = location.hash.slice(1);
    try {
      id = decodeURIComponent(id);
    } catch {
      return;
    }
    const around = id && ($(id) ?? $(id.split("@")[0]) ?? $(id.replace(/:programs$/, "")));
    if (!around) return;
    if (around.dataset.file) await load(around);
    if (id.endsWith(":programs")) choose($(id.replace(/:programs$/, "")));
    const target = $(id) ?? around;
    for (let part = target; part; part = part.parentElement) {
      part.hidden = false;
      if (part instanceof HTMLDetailsElement) part.open = true;
    }
    // The height of what is far away is an estimate: scroll again until the position stays.
    for (let tries = 0, before = null; tries < 20 && before !== scrollY; tries += 1) {
      before = tries ? scrollY : null;
      target.scrollIntoView();
      await new Promise((next) => setTimeout(next, 30));
    }
  };
  window.addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) reveal();
  });
  reveal();

  // What scrolls can be scrolled with keys.
  const reachable = () => {
    for (const part of document.querySelectorAll(".scroll, .programs, .long")) {
      const scrolls = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
      if (scrolls) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    }
  };
  document.addEventListener("toggle", () => requestAnimationFrame(reachable), true);
  window.addEventListener("resize", reachable);
  reachable();

  // On paper, what is loaded is open.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details[open] details:not([data-file]):not([open])")];
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });

  // Titles as a tooltip, which shows at once, keeps line ends, and is there for keyboard users too.
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
