// The facts of a page that check.py judges, taken in the browser.
() => {
    const number = (text) => (text.match(/[\d.]+/g) || []).map(Number);
    const over = (above, below) => above.slice(0, 3).map((it, i) => it * above[3] + below[i] * (1 - above[3]));
    // The colour as red, green, blue and opacity; computed colours have no opacity if it is 1.
    const colour = (text) => { const all = number(text); return [...all.slice(0, 3), all[3] ?? 1]; };
    const background = (element) => {
        const layers = [];
        for (let it = element; it; it = it.parentElement) layers.push(colour(getComputedStyle(it).backgroundColor));
        return layers.reverse().reduce((below, above) => over(above, below), [255, 255, 255]);
    };
    // https://www.w3.org/TR/WCAG21/#dfn-relative-luminance
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((it) => it / 255).map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (element) => {
        const below = background(element);
        const [less, more] = [luminance(over(colour(getComputedStyle(element).color), below)), luminance(below)].sort((a, b) => a - b);
        return (more + 0.05) / (less + 0.05);
    };
    // What is shown without a click: neither hidden, nor shifted out of the window as drawers and the button of the end are.
    const isShown = (element) => {
        const box = element.getBoundingClientRect();
        return element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && box.width > 1 && box.height > 1
            && box.right > 0 && box.left < innerWidth;
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const words = [];
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim();
        // The sign after a heading appears under the mouse only.
        if (!text || !isShown(element) || element.matches(".headerlink, script, style")) continue;
        const style = getComputedStyle(element), size = parseFloat(style.fontSize);
        words.push({
            text: text.slice(0, 40), size, contrast: contrast(element), isProse: !!element.closest("article p, article li"),
            isLarge: size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700), isCode: !!element.closest("code, pre, kbd, .source"),
            isNote: !!element.closest("table, .admonition, figcaption, sup, sub"),
        });
    }
    return {
        words,
        width: document.documentElement.scrollWidth, window: innerWidth,
        headings: document.querySelectorAll("h1").length,
        language: document.documentElement.lang, title: document.title,
        description: document.querySelector("meta[name=description]")?.content || "",
        images: [...document.images].filter((it) => !it.alt).map((it) => it.src),
    };
}
