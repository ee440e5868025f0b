'use strict';
// The page says everything without this: it sorts tables and opens what is folded before printing.
for (const table of document.querySelectorAll('table')) {
  const body = table.tBodies[0];
  const value = (row, index) => {
    const text = row.cells[index] ? row.cells[index].textContent.trim().replaceAll(',', '').replace('−', '-') : '';
    const [, number, unit] = text.match(/^([+-]?[\d.]+)\s*(ns|µs|ms|s|B|KiB)?(?![\w])/) || [];
    const factor = {ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 1024}[unit] || 1;
    return number === undefined ? text : Number(number) * factor;
  };
  const compare = (left, right) => typeof left === 'number' && typeof right === 'number'
    ? left - right : String(left).localeCompare(String(right));
  Array.from(table.tHead ? table.tHead.rows[0].cells : []).forEach((cell, index) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.title = 'sort by this column';
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener('click', () => {
      const sign = cell.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      cell.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
      const rows = Array.from(body.rows);
      rows.sort((left, right) => sign * compare(value(left, index), value(right, index)));
      body.append(...rows);
    });
  });
}
const folded = () => document.querySelectorAll('details:not([open])');
addEventListener('beforeprint', () => folded().forEach(details => { details.open = true; details.dataset.printed = ''; }));
addEventListener('afterprint', () => document.querySelectorAll('details[data-printed]').forEach(details => {
  details.open = false;
  delete details.dataset.printed;
}));
