// Read-outs: pointing at a figure, or walking through it with the arrow keys, says what its lines are there. Values are read off
// the picture, so they are about right; the table behind each figure has the numbers.
const scales = {
  linear: [value => value, place => place],
  log: [Math.log10, place => 10 ** place],
  nines: [value => -Math.log10(1 - value), place => 1 - 10 ** -place],
};
const digits = value => {
  const size = Math.abs(value);
  return value.toLocaleString('en-US', size >= 99.95 ? {maximumFractionDigits: 0} : {maximumSignificantDigits: 3});
};
const told = (value, unit) => {
  if (unit === 'time') {
    const [factor, name] = value < 999.5 ? [1, 'ns'] : value < 999.5e3 ? [1e3, 'µs'] : value < 999.5e6 ? [1e6, 'ms'] : [1e9, 's'];
    return `${digits(value / factor)} ${name}`;
  }
  if (unit === 'percent') {
    const percent = value * 100;
    return `${percent > 99 ? percent.toFixed(Math.min(6, Math.ceil(-Math.log10(Math.max(1 - value, 1e-9))))) : digits(percent)} %`;
  }
  if (unit === 'change') return `${value > 0 ? '+' : ''}${digits(value * 100)} %`;
  return unit === 'size' ? `${digits(value)} B` : digits(value);
};
const axis = text => {
  const [scale, unit, ...numbers] = text.split(' ');
  const [low, high, from, to] = numbers.map(Number);
  const [place, back] = scales[scale];
  const [first, last] = [place(low), place(high)];
  return {
    unit, from, to,
    at: value => from + (place(value) - first) / (last - first) * (to - from),
    value: at => back(first + (at - from) / (to - from) * (last - first)),
    holds: at => at >= Math.min(from, to) - 1 && at <= Math.max(from, to) + 1,
  };
};
const points = path => Array.from(path.getAttribute('d').matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g), match => [+match[1], +match[2]]);
// The height of a line of rising points at a place; nothing beyond its ends.
const height = (line, x) => {
  const next = line.findIndex(point => point[0] >= x);
  if (next < 0 || (next === 0 && line[0][0] > x)) return undefined;
  const [right, left] = [line[next], line[Math.max(next - 1, 0)]];
  return right[0] > left[0] ? left[1] + (x - left[0]) / (right[0] - left[0]) * (right[1] - left[1]) : right[1];
};
const middle = mark => {
  const box = mark.getBBox();
  return [box.x + box.width / 2, box.y + box.height / 2];
};
for (const svg of document.querySelectorAll('figure > svg')) {
  const marks = Array.from(svg.querySelectorAll('.mark, .bar')).filter(mark => mark.querySelector('title'));
  const level = svg.dataset.x && axis(svg.dataset.x);
  const upright = svg.dataset.y ? svg.dataset.y.split('|').map(axis) : [];
  if (!level && marks.length === 0) continue;
  const output = document.createElement('output');
  output.className = 'read';
  output.textContent = ' ';
  svg.after(output);
  const cursor = svg.appendChild(document.createElementNS(svg.namespaceURI, 'path'));
  cursor.setAttribute('class', 'cursor');
  const names = svg.querySelectorAll('text.axis');
  const what = names.length ? names[names.length - 1].textContent : '';
  const lines = () => svg.querySelectorAll('path[data-n]');
  const values = (x, y) => {
    const said = [];
    for (const path of lines()) {
      const at = height(points(path), x);
      const own = at !== undefined && upright.find(axis => axis.holds(at));
      if (own) said.push(`${path.dataset.n} ≈ ${told(own.value(at), own.unit)}`);
    }
    const own = said.length === 0 && y !== undefined && lines().length === 0 && upright.find(axis => axis.holds(y));
    if (own) said.push(`≈ ${told(own.value(y), own.unit)}`);
    return `${what} ${told(level.value(x), level.unit)}${said.length ? ': ' : ''}${said.join(' · ')}`;
  };
  const show = (x, y, mark) => {
    const heights = upright.flatMap(axis => [axis.from, axis.to]);
    const isInside = level && x >= level.from - 1 && x <= level.to + 1;
    const title = mark && mark.querySelector('title').textContent;
    const lined = isInside && (lines().length > 0 || (upright.length > 0 && !title && y !== undefined)) ? values(x, y) : '';
    output.textContent = [title, lined].filter(Boolean).join(' — ') || ' ';
    cursor.setAttribute('d', isInside && heights.length ? `M${x} ${Math.min(...heights)}V${Math.max(...heights)}` : '');
  };
  const clear = () => { output.textContent = ' '; cursor.setAttribute('d', ''); };
  svg.addEventListener('pointermove', event => {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const over = marks.filter(mark => mark.matches('.bar') ? mark.contains(event.target) : true)
      .map(mark => [mark, Math.hypot(...middle(mark).map((at, index) => at - [place.x, place.y][index]))])
      .filter(([mark, far]) => mark.matches('.bar') || far < 10)
      .sort((left, right) => left[1] - right[1])[0];
    show(place.x, place.y, over && over[0]);
  });
  svg.addEventListener('pointerleave', clear);
  // By keys: along the lines, or from mark to mark where there are none. A picture of ink alone can only be pointed at.
  const isLined = lines().length > 0 && level;
  const steps = isLined ? 60 : marks.length - 1;
  if (steps < 0) continue;
  svg.tabIndex = 0;
  let at = -1;
  svg.addEventListener('keydown', event => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by) return;
    event.preventDefault();
    at = at < 0 ? (by > 0 ? 0 : steps) : Math.min(Math.max(at + by, 0), steps);
    if (isLined) show(level.from + at / 60 * (level.to - level.from));
    else show(...middle(marks[at]), marks[at]);
  });
  svg.addEventListener('blur', clear);
}
// Fan-out: the deadline is chosen, and the lines are drawn anew from the numbers that came with the page.
for (const data of document.querySelectorAll('#fanout script')) {
  const {deadlines, chosen, servers, arms} = JSON.parse(data.textContent);
  const figure = document.getElementById('fanout');
  const svg = figure.querySelector(':scope > svg');
  const level = axis(svg.dataset.x);
  const [upper, lower] = svg.dataset.y.split('|').map(axis);
  const path = (axis, places, chance) => places.map((count, index) =>
    `${index ? 'L' : 'M'}${level.at(count).toFixed(1)} ${axis.at(chance(count, index)).toFixed(1)}`).join('');
  const fine = Array.from({length: 121}, (_, place) => 10 ** (place / 120 * 4));
  const input = document.createElement('input');
  Object.assign(input, {type: 'range', min: 0, max: deadlines.length - 1, step: 1, value: chosen});
  const label = document.createElement('label');
  const output = document.createElement('output');
  output.className = 'read';
  label.className = 'deadline';
  label.append('Another deadline ', input);
  svg.before(label, output);
  const names = Array.from(figure.querySelectorAll('.legend > span'), span => span.textContent.trim());
  const draw = index => {
    input.setAttribute('aria-valuetext', told(deadlines[index], 'time'));
    const said = arms.map((arm, number) => {
      const late = arm.late[index];
      const apart = count => Math.exp(count * Math.log1p(-late));
      const [independent, same] = svg.querySelectorAll(`.line.${arm.class}`);
      independent.setAttribute('d', path(upper, fine, apart));
      same.setAttribute('d', path(lower, servers, (_, place) => arm.same[index][place] / 1000));
      svg.querySelector(`.thin.${arm.class}`).setAttribute('d', path(lower, fine, apart));
      const claimed = arm.claimed[index];
      return `${names[number] ? names[number] + ': ' : ''}${late > 0 ? digits(late * 100) : '0'} % late, all of at least ${digits(claimed)} servers in time with 99 %`;
    });
    // What belongs to the deadline of the heading alone.
    for (const own of svg.querySelectorAll('.band, .mark, .tag')) own.style.visibility = index === chosen ? '' : 'hidden';
    output.textContent = `${told(deadlines[index], 'time')} — ${said.join(' · ')}`;
  };
  input.addEventListener('input', () => draw(Number(input.value)));
  input.setAttribute('aria-valuetext', told(deadlines[chosen], 'time'));
  output.textContent = ' ';
}
