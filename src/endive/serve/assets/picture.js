// Copies a figure as a PNG for documents: title, legend and chart, dark on white, regardless of the colours of the page.
const INK = "#1a1c1f";
const PAPER = "#ffffff";
const SCALE = 2;
const MARGIN = 12;
const TITLE = { font: "600 15px system-ui, sans-serif", height: 26 };
const LEGEND = { font: "12px system-ui, sans-serif", height: 18, gap: 16 };
const SHOWN_MS = 1500;
const LABEL = "Copy as PNG";

// Replaces the colour variables of the page, which an image cannot use.
async function chartImage(view) {
  const svg = (await view.toSVG()).replaceAll("currentColor", INK).replaceAll("var(--paper)", PAPER);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  return image;
}

// Returns the positions of the legend entries, in lines that fit the width of the picture.
function placeLegend(context, entries, width) {
  context.font = LEGEND.font;
  let [left, line] = [0, 0];
  return entries.map(({ sign, colour, name }) => {
    const own = context.measureText(`${sign} ${name}`).width;
    if (left > 0 && left + own > width) [left, line] = [0, line + 1];
    const place = { sign, colour, name, left, line };
    left += own + LEGEND.gap;
    return place;
  });
}

async function paint(figure, view) {
  const chart = await chartImage(view);
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  const entries = [...figure.querySelectorAll(".legend span")].map((span) => ({
    sign: span.querySelector("i").textContent, colour: span.querySelector("i").style.color, name: span.lastChild.textContent,
  }));
  const legend = placeLegend(context, entries, chart.width);
  const head = TITLE.height + (legend.length ? (legend.at(-1).line + 1) * LEGEND.height + MARGIN / 2 : 0);
  canvas.width = (chart.width + 2 * MARGIN) * SCALE;
  canvas.height = (chart.height + head + 2 * MARGIN) * SCALE;
  context.scale(SCALE, SCALE);
  context.fillStyle = PAPER;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.translate(MARGIN, MARGIN);
  context.textBaseline = "top";
  context.fillStyle = INK;
  context.font = TITLE.font;
  context.fillText(figure.querySelector("h3").textContent, 0, 0, chart.width);
  context.font = LEGEND.font;
  for (const { sign, colour, name, left, line } of legend) {
    const top = TITLE.height + line * LEGEND.height;
    context.fillStyle = colour === "currentcolor" ? INK : colour;
    context.fillText(sign, left, top);
    context.fillStyle = INK;
    context.fillText(name, left + context.measureText(`${sign} `).width, top);
  }
  context.drawImage(chart, 0, head, chart.width, chart.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
}

function download(blob, title) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "")}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 0);
}

// Copies a figure, or saves it where the browser has no clipboard for images or does not permit its use.
export async function copyPicture(figure, view) {
  const button = figure.querySelector("button.picture");
  const picture = paint(figure, view);
  try {
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
      button.textContent = "Copied";
    } catch {
      download(await picture, figure.querySelector("h3").textContent);
      button.textContent = "Saved";
    }
  } catch (error) {
    button.textContent = `Cannot copy: ${error.message}`;
  }
  setTimeout(() => { button.textContent = LABEL; }, SHOWN_MS);
}
