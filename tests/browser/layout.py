"""What may be wrong with how a page is laid out, as scripts that find it."""

WIDTHS = (360, 820, 1280)
# Elements that stick out of the page, other than inside something that scrolls.
STICKS_OUT = """
const wide = document.documentElement.clientWidth;
const scrolls = e => { for (let p = e.parentElement; p; p = p.parentElement)
  if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(p).overflowX)) return true; return false; };
return [...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  return box.width > 1 && (box.right > wide + 1 || box.left < -1) && !scrolls(e) && !e.closest('.skip, .hidden, svg')
    && style.display !== 'none';
}).slice(0, 5).map(e => e.outerHTML.slice(0, 200));
"""
# Text whose box is cut off or that lies on other text of the same table row.
OVERLAPS = """
const found = [];
for (const row of document.querySelectorAll('tr')) {
  const boxes = [...row.children].map(c => { const r = document.createRange(); r.selectNodeContents(c);
    return [c, r.getBoundingClientRect()]; }).filter(([c, b]) => b.width > 1 && !c.querySelector('.hidden'));
  for (let i = 1; i < boxes.length; i++)
    if (boxes[i - 1][1].right > boxes[i][1].left + 1.5 && boxes[i - 1][1].left < boxes[i][1].left)
      found.push(row.innerText.slice(0, 100));
}
return found.slice(0, 5);
"""
# Names that are squeezed into a column of single letters.
SQUEEZED = """
return [...document.querySelectorAll('bdi, th, td, caption, figcaption')].filter(e => {
  if (e.children.length || e.innerText.length < 3) return false;
  const r = document.createRange(); r.selectNodeContents(e);
  const lines = new Set([...r.getClientRects()].map(b => Math.round(b.top)));
  return lines.size > 1 && e.innerText.length / lines.size < 4;
}).slice(0, 5).map(e => e.innerText);
"""
# Text that does not stand out from what is behind it, by the rule of 4.5.
FAINT = """
const numbers = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = e => { for (let p = e; p; p = p.parentElement) { const c = numbers(getComputedStyle(p).backgroundColor);
  if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
return [...document.querySelectorAll('body *')].filter(e => {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest('.hidden, .watermark, svg'))
    return false;
  const [a, b] = [light(numbers(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05) < 4.5;
}).slice(0, 5).map(e => e.outerHTML.slice(0, 200));
"""
# Scrollable places that the keyboard cannot reach.
UNREACHABLE = """
return [...document.querySelectorAll('body *')].filter(e => e.scrollWidth > e.clientWidth + 1 &&
  ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).map(e => e.outerHTML.slice(0, 200));
"""
# Names in the graph that stick out of it, or lie on each other.
GRAPH = """
const found = [];
for (const graph of document.querySelectorAll('svg.graph')) {
  const box = graph.getBoundingClientRect();
  const names = [...graph.querySelectorAll('.names text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, b] of names) if (b.left < box.left - 1 || b.right > box.right + 1) found.push(text);
  names.forEach(([text, a], i) => names.slice(0, i).forEach(([other, b]) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
      found.push(text + ' on ' + other); }));
}
return found.slice(0, 5);
"""
