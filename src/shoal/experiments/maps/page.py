"""Maps as a page: one HTML file without any other, which plays the maps of a run."""

import json
from string import Template
from typing import Any

from shoal.experiments.maps.course import Course, borders, shares
from shoal.experiments.maps.picture import COLOURS, DARK, INK


def page(course: Course) -> str:
    """The page of a course: a map with a slider, and the imbalance over time below."""
    data = json.dumps(_data(course), separators=(",", ":")).replace("</", "<\\/")
    return _PAGE.substitute(data=data, title=_escaped(f"{course.query}: {course.policy} on {course.runtime}"))


def _data(course: Course) -> dict[str, Any]:
    first = course.maps[0]
    frames = []
    for each, second, rate, peak in zip(course.maps, course.seconds(), course.rates(), course.peaks(), strict=True):
        rows = [
            [*map(_short, borders(each, tile)), tile.worker, tile.number, tile.events, tile.results, _short(share)]
            for tile, share in zip(each.tiles, shares(each), strict=True)
        ]
        frames.append({"t": _short(second), "rate": round(rate), "peak": _short(peak), "tiles": rows})
    return {"space": list(first.space), "colours": list(COLOURS), "ink": INK, "dark": DARK, "frames": frames}


def _short(number: float) -> float:
    return float(f"{number:.6g}")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2833; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.15rem; font-weight: 600; }
canvas { width: 100%; display: block; background: #fbfcfc; border: 1px solid #e5e8e8; }
.controls { display: flex; gap: .75rem; align-items: center; margin: .75rem 0; }
.controls input { flex: 1; }
button { font: inherit; padding: .2rem .9rem; }
#about, #tile { color: #5d6d7e; min-height: 1.5em; }
</style>
</head>
<body>
<h1>$title</h1>
<canvas id="map" width="1200" height="800" role="img" aria-label="tiles by worker"></canvas>
<div class="controls">
<button id="play">Play</button>
<input id="time" type="range" min="0" value="0" aria-label="time">
<span id="about"></span>
</div>
<div id="tile">Point at a tile to see its load. Colour: worker. Darker: more of all work.</div>
<canvas id="line" width="1200" height="220" role="img" aria-label="busiest worker over mean, over time"></canvas>
<script type="application/json" id="data">$data</script>
<script>
const data = JSON.parse(document.getElementById("data").textContent);
const map = document.getElementById("map"), line = document.getElementById("line");
const time = document.getElementById("time"), about = document.getElementById("about");
const tileText = document.getElementById("tile"), play = document.getElementById("play");
const [minX, minY, maxX, maxY] = data.space;
time.max = data.frames.length - 1;
const px = x => (x - minX) / (maxX - minX) * map.width;
const py = y => map.height - (y - minY) / (maxY - minY) * map.height;
function drawMap(frame) {
  const g = map.getContext("2d");
  g.clearRect(0, 0, map.width, map.height);
  const most = Math.max(...frame.tiles.map(t => t[8])) || 1;
  for (const [x0, y0, x1, y1, worker, , , , share] of frame.tiles) {
    const left = px(x0), top = py(y1), wide = px(x1) - left, high = py(y0) - top;
    g.globalAlpha = 0.12 + 0.75 * share / most;
    g.fillStyle = data.colours[worker % data.colours.length];
    g.fillRect(left, top, wide, high);
    g.globalAlpha = 1;
    g.strokeStyle = "#fff";
    g.lineWidth = 2;
    g.strokeRect(left, top, wide, high);
    if (wide > 60 && high > 40) {
      g.fillStyle = share / most < data.dark ? data.ink : "#fff";
      g.font = "22px system-ui, sans-serif";
      g.textAlign = "center";
      g.fillText(worker, left + wide / 2, top + high / 2 + 8);
    }
  }
}
function drawLine(now) {
  const g = line.getContext("2d"), last = data.frames[data.frames.length - 1].t || 1;
  const most = Math.max(2, ...data.frames.map(f => f.peak));
  const x = t => 60 + t / last * (line.width - 80);
  const y = p => line.height - 30 - (p - 1) / (most - 1) * (line.height - 60);
  g.clearRect(0, 0, line.width, line.height);
  g.font = "18px system-ui, sans-serif";
  g.fillStyle = "#5d6d7e";
  g.fillText("busiest worker / mean", 60, 22);
  for (const p of [1, (1 + most) / 2, most]) {
    g.fillText(p.toFixed(1), 12, y(p) + 6);
    g.strokeStyle = "#e5e8e8";
    g.beginPath(); g.moveTo(60, y(p)); g.lineTo(line.width - 20, y(p)); g.stroke();
  }
  g.strokeStyle = data.colours[0];
  g.lineWidth = 3;
  g.beginPath();
  data.frames.forEach((f, i) => i ? g.lineTo(x(f.t), y(f.peak)) : g.moveTo(x(f.t), y(f.peak)));
  g.stroke();
  g.fillStyle = data.colours[1];
  g.beginPath(); g.arc(x(now.t), y(now.peak), 7, 0, 7); g.fill();
}
function show() {
  const frame = data.frames[+time.value];
  drawMap(frame);
  drawLine(frame);
  about.textContent = frame.t.toFixed(1) + " s, " + frame.tiles.length + " tiles, " +
    frame.rate.toLocaleString("en") + " rows/s";
}
map.addEventListener("mousemove", event => {
  const box = map.getBoundingClientRect();
  const x = minX + (event.clientX - box.left) / box.width * (maxX - minX);
  const y = maxY - (event.clientY - box.top) / box.height * (maxY - minY);
  const hit = data.frames[+time.value].tiles.find(t => x >= t[0] && x < t[2] && y >= t[1] && y < t[3]);
  if (hit) tileText.textContent = "tile " + hit[5] + " on worker " + hit[4] + ": " + hit[6].toLocaleString("en") +
    " rows, " + hit[7].toLocaleString("en") + " results, " + (100 * hit[8]).toFixed(1) + " % of the work";
});
let timer = null;
play.addEventListener("click", () => {
  if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
  if (+time.value >= +time.max) time.value = 0;
  play.textContent = "Pause";
  timer = setInterval(() => {
    if (+time.value >= +time.max) { play.click(); return; }
    time.value = +time.value + 1;
    show();
  }, 200);
});
time.addEventListener("input", show);
show();
</script>
</body>
</html>
""")
