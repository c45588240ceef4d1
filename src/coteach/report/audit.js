// The gallery of an audit: cards made as they are scrolled to, filters, decisions, and the file that they become.
(() => {
  "use strict";
  const { audit, names, box, tiny, cards } = JSON.parse(document.getElementById("data").textContent);
  cards.forEach((card, place) => { card.place = place; });
  const at = id => document.getElementById(id);
  const PAGE = 60;
  const KEY = `coteach-audit-${audit}`;
  const WORDS = { accept: "accepted", reject: "rejected", undecided: "undecided" };
  const ids = new Intl.Collator(undefined, { numeric: true });
  const ORDERS = {
    score: (a, b) => b.score - a.score,
    loss: (a, b) => b.loss - a.loss,
    id: (a, b) => ids.compare(a.id, b.id),
    given: (a, b) => a.given - b.given || b.score - a.score,
    suggested: (a, b) => a.suggested - b.suggested || b.score - a.score,
  };

  const decisions = new Map();  // by place among the worst, for an id may come twice
  const past = [];  // for each step that can be taken back, what was decided before it: pairs of place and decision
  const asked = { decision: "", which: cards.some(card => card.counted) ? "counted" : "" };
  const nodes = new Map(), cardOf = new WeakMap();  // a card is made once and kept
  let matching = [], made = 0, lost = false;

  // What is remembered. Where a browser forbids that, the decisions last as long as the page.
  function remember() {
    try { localStorage.setItem(KEY, JSON.stringify([...decisions])); } catch { forgetful(); }
  }
  function recall() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
      decisions.clear();
      for (const [place, decision] of kept)
        if (place in cards && (decision === "accept" || decision === "reject")) decisions.set(place, decision);
    } catch { forgetful(); }
  }
  function forgetful() {
    lost = true;
    at("forgets").hidden = false;
  }

  // A card. Texts are set as text, never as HTML.
  function make(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }
  const number = value => value === null ? "–" : value.toFixed(2);
  const share = value =>
    value === null ? "–" : value > 0 && value < .005 ? "< 1 %" : value < 1 && value > .995 ? "> 99 %" : `${Math.round(100 * value)} %`;

  function built(card) {
    const { id, given, suggested, score, p, picked, loss } = card;
    const node = make("li", { className: "item card" },
      make("div", { className: "look" }, look(card)),
      make("div", { className: "about" },
        make("p", { className: "change" },
          make("s", { textContent: names[given] }), make("span", { className: "to", textContent: "→" }), names[suggested]),
        make("p", { className: "id", textContent: id, title: id }),
        make("div", { className: "p" }, ...probability(given, p[0], "track"), ...probability(suggested, p[1], "track new")),
        make("dl", { className: "why" }, ...fact("score", number(score)), ...fact("loss", number(loss)), ...fact("picked", picked.map(each => share(each).replace(" %", "")).join(", ") + " %")),
        make("div", { className: "choose" }, choice(card, "accept", "Accept"), choice(card, "reject", "Reject"))));
    cardOf.set(node, card);
    return node;
  }
  function look({ id, picture, row, more }) {
    if (!picture) {
      const cells = row.flatMap(([name, value]) => fact(name, value));
      if (more) cells.push(...fact("…", `and ${more} more`));
      return make("dl", {}, ...cells);
    }
    const { src, width, height } = picture, longest = Math.max(width, height), small = longest <= tiny;
    const zoom = small ? Math.max(1, Math.floor(box / longest)) : box / longest;  // whole, so that pixels stay square
    return make("img", { src, alt: id, width: width * zoom, height: height * zoom, className: small ? "tiny" : "" });
  }
  function probability(label, value, kind) {
    const bar = make("span", { className: "bar" });
    bar.style.width = `${100 * (value ?? 0)}%`;
    return [make("span", { textContent: names[label], title: names[label] }), make("span", { className: kind }, bar), make("span", { textContent: share(value) })];
  }
  const fact = (name, value) => [make("dt", { textContent: name }), make("dd", { textContent: value })];
  function choice({ id, given, suggested }, decision, word) {
    const button = make("button", { type: "button", textContent: word });
    button.dataset.decision = decision;
    button.setAttribute("aria-label", `${word} ${names[suggested]} instead of ${names[given]} for ${id}`);
    return button;
  }
  function painted(card) {
    if (!nodes.has(card.place)) nodes.set(card.place, built(card));
    const node = nodes.get(card.place);
    node.dataset.decision = decided(card);
    for (const button of node.querySelectorAll(".choose button"))
      button.setAttribute("aria-pressed", decided(card) === button.dataset.decision);
    return node;
  }

  // What is shown.
  const decided = card => decisions.get(card.place) ?? "undecided";
  const fits = card =>
    (at("given").value === "" || card.given === Number(at("given").value)) &&
    (at("suggested").value === "" || card.suggested === Number(at("suggested").value)) &&
    card.id.toLowerCase().includes(at("text").value.trim().toLowerCase()) &&
    (asked.decision === "" || decided(card) === asked.decision) &&
    (asked.which === "" || card.counted);

  function show(least = PAGE) {
    matching = cards.filter(fits).sort(ORDERS[at("sort").value]);
    if (at("turn").getAttribute("aria-pressed") === "true") matching.reverse();
    made = Math.min(least, matching.length);
    at("cards").replaceChildren(...matching.slice(0, made).map(painted));
    count();
  }
  function more() {
    at("cards").append(...matching.slice(made, made + PAGE).map(painted));
    made = Math.min(made + PAGE, matching.length);
    count();
  }
  function count() {
    const of = { accept: 0, reject: 0, undecided: 0 };
    for (const card of cards) of[decided(card)] += 1;
    const open = matching.filter(card => decided(card) === "undecided").length;
    at("counter").textContent = Object.entries(of).map(([each, number]) => `${number} ${WORDS[each]}`).join(", ");
    at("matching").textContent = `${matching.length} of ${cards.length} shown`;
    at("all").textContent = open ? `Accept all shown (${open})` : "Accept all shown";
    at("all").disabled = open === 0;
    at("undo").disabled = past.length === 0;
    at("download").disabled = decisions.size === 0;
    at("empty").hidden = matching.length > 0;
    at("more").hidden = made === matching.length;
    const [yes, no] = document.querySelector(".tally").children;
    yes.style.width = `${100 * of.accept / cards.length}%`;
    no.style.width = `${100 * of.reject / cards.length}%`;
    for (const group of ["decision", "which"])
      for (const button of at(group).children) button.setAttribute("aria-pressed", asked[group] === button.dataset.value);
  }

  // What is decided.
  function decide(chosen, decision) {
    past.push(chosen.map(card => [card.place, decisions.get(card.place)]));
    set(chosen.map(card => [card.place, decision]));
  }
  function undo() {
    set(past.pop() ?? []);
  }
  function set(changes) {
    for (const [place, decision] of changes)
      if (decision) decisions.set(place, decision); else decisions.delete(place);
    remember();
    if (asked.decision) return show(Math.max(made, PAGE));
    matching.slice(0, made).forEach(painted);  // where they are
    count();
  }
  const focus = (place, decision) => {
    while (place >= made && made < matching.length) more();
    const node = at("cards").children[Math.max(0, Math.min(place, matching.length - 1))];
    (node?.querySelector(`[data-decision="${decision}"]`) ?? at("undo")).focus();
  };
  function columns() {
    const items = [...at("cards").children], below = items.findIndex(node => node.offsetTop > items[0].offsetTop);
    return below < 0 ? items.length : below;
  }

  at("cards").addEventListener("click", ({ target }) => {
    const button = target.closest("button"), node = target.closest(".item");
    if (!button) return;
    const card = cardOf.get(node), place = matching.indexOf(card), decision = button.dataset.decision;
    decide([card], decided(card) === decision ? undefined : decision);
    focus(place, decision);
  });
  at("cards").addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = event.target.closest(".item"), card = cardOf.get(node), place = matching.indexOf(card);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() }[event.key];
    const decision = { a: "accept", r: "reject" }[event.key.toLowerCase()];
    if (step) {
      if (place + step >= 0 && place + step < matching.length) focus(place + step, event.target.dataset.decision);
    } else if (decision) {
      if (decided(card) !== decision) decide([card], decision);
      focus(matching[place] === card ? place + 1 : place, decision);  // under a filter the next may have moved up
    } else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", event => {
    if (event.target.matches("input, select, textarea") || event.altKey || !past.length) return;
    const back = event.ctrlKey || event.metaKey ? "z" : "u";
    if (event.key.toLowerCase() === back) { event.preventDefault(); undo(); }
  });

  at("undo").addEventListener("click", undo);
  at("all").addEventListener("click", () => decide(matching.filter(card => decided(card) === "undecided"), "accept"));
  at("more").addEventListener("click", more);
  at("turn").addEventListener("click", ({ target }) => {
    target.setAttribute("aria-pressed", target.getAttribute("aria-pressed") !== "true");
    show();
  });
  for (const group of ["decision", "which"])
    at(group).addEventListener("click", ({ target }) => {
      if (target.matches("button")) { asked[group] = target.dataset.value; show(); }
    });
  at("text").addEventListener("input", () => show());
  for (const id of ["given", "suggested", "sort"]) at(id).addEventListener("change", () => show());
  for (const pair of document.querySelectorAll("#noise button"))
    pair.addEventListener("click", () => {
      at("given").value = pair.dataset.given;
      at("suggested").value = pair.dataset.suggested;
      at("text").value = "";
      asked.decision = "";
      show();
      at("labels").scrollIntoView();
    });

  const quoted = text => /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  at("download").addEventListener("click", () => {
    const rows = cards.filter(card => decisions.has(card.place))
      .map(card => [card.id, names[card.given], names[card.suggested], decisions.get(card.place)]);
    const lines = [["id", "given_label", "suggested_label", "decision"], ...rows].map(row => row.map(quoted).join(",") + "\n");
    const href = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
    make("a", { href, download: "decisions.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
    lost = false;
  });

  window.addEventListener("storage", event => {
    if (event.key === KEY) { recall(); past.length = 0; show(Math.max(made, PAGE)); }  // decided in another tab
  });
  window.addEventListener("beforeunload", event => {
    if (lost && decisions.size) event.preventDefault();
  });
  new IntersectionObserver(entries => {
    if (entries.some(entry => entry.isIntersecting) && made < matching.length) more();
  }, { rootMargin: "600px" }).observe(at("more"));

  for (const side of ["given", "suggested"]) {
    const there = new Set(cards.map(card => card[side]));
    const options = names.map((name, value) => make("option", { value, textContent: name })).filter((_, value) => there.has(value));
    at(side).append(make("option", { value: "", textContent: "any" }), ...options);
  }
  if (!cards.some(card => card.picture)) at("cards").classList.add("rows");
  if (cards.every(card => card.counted) || !cards.some(card => card.counted)) at("which").parentElement.hidden = true;
  recall();
  show();
  at("gallery").hidden = false;
})();
