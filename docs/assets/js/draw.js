// Draws the diagrams and formulas of a page, with libraries that lie beside this file and are loaded
// only where they are needed. Diagrams have the class `diagram`: what is called `mermaid` Material
// would draw itself, with a copy from another host.
(() => {
  const vendor = new URL("../vendor/", document.currentScript.src);

  const load = (tag, attributes) =>
    new Promise((resolve, reject) => {
      const element = Object.assign(document.createElement(tag), attributes);
      element.onload = resolve;
      element.onerror = reject;
      document.head.append(element);
    });

  const drawFormulas = async (formulas) => {
    await Promise.all([
      load("link", { rel: "stylesheet", href: new URL("katex/katex.min.css", vendor).href }),
      load("script", { src: new URL("katex/katex.min.js", vendor).href }),
    ]);
    for (const formula of formulas) {
      const source = formula.textContent.trim().slice(2, -2); // between \( and \), or \[ and \]
      katex.render(source, formula, { displayMode: formula.tagName === "DIV" });
    }
  };

  const drawDiagrams = async (diagrams) => {
    await load("script", { src: new URL("mermaid/mermaid.min.js", vendor).href });
    const sources = diagrams.map((diagram) => diagram.textContent);
    const draw = async () => {
      const dark = document.body.dataset.mdColorScheme === "slate";
      mermaid.initialize({
        startOnLoad: false,
        theme: dark ? "dark" : "neutral",
        fontFamily: getComputedStyle(document.body).fontFamily,
      });
      for (const [number, diagram] of diagrams.entries()) {
        const { svg } = await mermaid.render(`diagram-${number}`, sources[number]);
        diagram.innerHTML = svg;
        const drawing = diagram.querySelector("svg"); // on a phone it is scrolled, not shrunk away
        drawing.style.minWidth = `min(${drawing.viewBox.baseVal.width}px, 28rem)`;
        diagram.classList.add("drawn");
      }
    };
    await draw();
    new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  };

  document.addEventListener("DOMContentLoaded", () => {
    const formulas = [...document.querySelectorAll(".arithmatex")];
    const diagrams = [...document.querySelectorAll(".diagram")];
    if (formulas.length) drawFormulas(formulas);
    if (diagrams.length) drawDiagrams(diagrams);
  });
})();
