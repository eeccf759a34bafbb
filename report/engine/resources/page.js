"use strict";
// A formula that is wider than its column scrolls; with a keyboard only what has the focus does.
for (const formula of document.querySelectorAll('math[display="block"]')) {
  if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
}
(() => {
  const contents = document.querySelector("#contents details");
  if (!contents) return;
  const narrow = window.matchMedia("(max-width: 63.99rem)");
  const fold = () => { contents.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  contents.addEventListener("click", (event) => {
    const wide = !narrow.matches;
    if (event.target.closest("summary") && wide) event.preventDefault();
    if (event.target.closest("a") && !wide) contents.open = false;
  });

  const links = new Map();
  for (const link of contents.querySelectorAll('li a[href^="#"]')) {
    const heading = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (heading) links.set(heading, link);
  }
  let current = null;
  const mark = () => {
    let found = null;
    for (const [section, link] of links) {
      if (section.getBoundingClientRect().top < window.innerHeight / 4) found = link;
    }
    if (found === current) return;
    current?.removeAttribute("aria-current");
    found?.setAttribute("aria-current", "location");
    found?.scrollIntoView({ block: "nearest" });
    current = found;
  };
  let waiting = false;
  window.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mark(); });
  }, { passive: true });
  mark();
})();
