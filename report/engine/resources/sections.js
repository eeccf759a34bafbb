"use strict";
// Headings link to themselves, chapters fold, references and appendices are folded, and whatever is led to is unfolded. Without scripts all is open.
(() => {
  const main = document.getElementById("content");

  function folding(section, title) {
    const button = document.createElement("button");
    const set = (folded) => {
      section.classList.toggle("folded", folded);
      button.setAttribute("aria-expanded", String(!folded));
      if (!folded) window.dispatchEvent(new Event("resize")); // a chart that was narrowed while it was hidden
    };
    button.type = "button";
    button.className = "fold";
    button.setAttribute("aria-label", `Section ${title}`);
    button.setAttribute("aria-expanded", "true");
    button.addEventListener("click", () => set(!section.classList.contains("folded")));
    section.addEventListener("reveal", () => set(false));
    return button;
  }

  for (const section of main.querySelectorAll("section[id]")) {
    const heading = section.querySelector(":scope > :is(h2, h3, h4, h5, h6)");
    if (!heading) continue;
    const title = heading.textContent.trim();
    const link = document.createElement("a");
    link.className = "anchor";
    link.href = `#${encodeURIComponent(section.id)}`;
    link.textContent = "#";
    link.setAttribute("aria-label", `Link to ${title}`);
    heading.append(" ", link);
    if (section.parentElement !== main) continue;
    const fold = folding(section, title);
    heading.prepend(fold);
    if (section.querySelector(":scope > #refs") || title.includes("Appendix:")) fold.click(); // links lead into them
  }

  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    const folded = target?.closest("section.folded");
    const closed = [...main.querySelectorAll("details:not([open])")].filter((details) => details.contains(target));
    if (!folded && !closed.length) return;
    folded?.dispatchEvent(new Event("reveal"));
    for (const details of closed) details.open = true;
    window.dispatchEvent(new Event("resize"));
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  // An address that stands already changes nothing when it is asked for again.
  document.addEventListener("click", (event) => event.target.closest('a[href^="#"]') && setTimeout(reveal));
  reveal();
})();
