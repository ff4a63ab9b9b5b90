"use strict";

// Cards of a page: found by words, gone through by keys, printed alone or together.
(() => {
  const sheets = [...document.querySelectorAll(".rc-sheet")];
  const links = new Map([...document.querySelectorAll(".rc-index li")].map((item) => [item.firstElementChild.hash, item]));
  const search = document.getElementById("rc-search");
  const plain = (text) => text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase().replace(/\s+/g, " ");
  // What a person looks for is in the name, the answers, the values and the alternatives; not in the words of every card.
  const parts = ".rc-title, .rc-answer b, .rc-alternative h4, .rc-values th, .rc-values td, .rc-changes td, .rc-attempt p b";
  const texts = sheets.map((sheet) => plain([...sheet.querySelectorAll(parts)].map((part) => part.textContent).join(" \n ")));
  const titles = sheets.map((sheet) => plain(sheet.querySelector(".rc-title").textContent));
  const left = () => sheets.filter((sheet) => !sheet.hidden);

  function find() {
    const words = plain(search.value).split(" ").filter(Boolean);
    const whole = words.join(" ");
    // Who types a name as it stands means that card, not all whose values hold the same digits.
    const named = titles.map((title) => whole !== "" && (title === whole || title.endsWith(` ${whole}`)));
    const some = named.some(Boolean);
    sheets.forEach((sheet, i) => {
      sheet.hidden = some ? !named[i] : !words.every((word) => texts[i].includes(word));
      links.get(`#${sheet.dataset.card}`).hidden = sheet.hidden;
    });
    const count = left().length;
    document.getElementById("rc-count").textContent =
      count === sheets.length ? `${count} cards` : `${count} of ${sheets.length} cards`;
    document.getElementById("rc-none").hidden = count > 0;
  }

  function go(sheet) {
    const card = sheet.querySelector(".relax-card");
    card.scrollIntoView({ block: "start" });
    card.focus({ preventScroll: true });
  }

  function step(by) {
    const shown = left();
    if (shown.length === 0) return;
    const top = document.querySelector(".rc-tools").getBoundingClientRect().height + 24;
    const past = shown.filter((sheet) => sheet.getBoundingClientRect().top < top + 1).length - 1;
    const at = document.activeElement.closest?.(".rc-sheet");
    const here = at && shown.includes(at) ? shown.indexOf(at) : past;
    go(shown[Math.min(Math.max(here + by, 0), shown.length - 1)]);
  }

  function print(which) {
    document.body.classList.toggle("rc-one", which !== "all");
    sheets.forEach((sheet) => sheet.classList.toggle("rc-chosen", sheet.dataset.card === which));
    window.print();
  }

  window.addEventListener("afterprint", () => document.body.classList.remove("rc-one"));
  for (const button of document.querySelectorAll("[data-print]")) {
    button.addEventListener("click", () => print(button.dataset.print));
  }
  if (!search) return;
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && left().length) go(left()[0]);
    if (event.key === "Escape") {
      search.value = "";
      find();
    }
  });
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => step(Number(button.dataset.step)));
  }
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    }
    if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".rc-index a");
    if (!link) return;
    event.preventDefault();
    link.closest("details").open = false;
    go(document.querySelector(link.hash).closest(".rc-sheet"));
    history.replaceState(null, "", link.hash);
  });
  find(); // a browser that goes back keeps what was typed
})();
