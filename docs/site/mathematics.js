// Typesets what pymdownx.arithmatex marks, as MathML, which needs neither fonts nor a network.
document$.subscribe(() => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    if (/^\\[([]/.test(text)) {
      const displayMode = text.startsWith("\\[");
      katex.render(text.slice(2, -2), element, { displayMode, output: "mathml" });
    }
  }
});
