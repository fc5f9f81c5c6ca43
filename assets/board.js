// Live updates of the dashboard: replaces changed parts, updates relative times, draws the charts, and shows all times in
// the chosen zone. Without this script the page works, and shows the state at the time it was loaded, in UTC.
import uPlot from './uplot.js'

const connection = document.getElementById('connection')
const address = document.body.dataset['live']

/** @param {string} path */
function live(path) {
  const events = new EventSource(`/events?${new URLSearchParams({ path })}`)
  let lastHeartbeat = Date.now()
  /** @type {Map<string, string>} */
  const postponed = new Map()
  events.addEventListener('part', (event) => {
    const { id, html } = JSON.parse(event.data)
    if (!replace(id, html)) postponed.set(id, html)
    else postponed.delete(id)
  })
  events.addEventListener('chart', (event) => {
    const { id, chart } = JSON.parse(event.data)
    showChart(id, chart)
  })
  events.addEventListener('beat', () => {
    lastHeartbeat = Date.now()
    showConnection('live', false)
    for (const [id, html] of postponed) if (replace(id, html)) postponed.delete(id)
  })
  const lose = (/** @type {string} */ text) =>
    showConnection(`${text}; this is as of ${clockText(new Date(lastHeartbeat), false)}`, true)
  events.addEventListener('fault', (event) => lose(event.data))
  events.addEventListener('error', () => lose('no connection, trying again'))
  // A connection can end without an error event.
  setInterval(() => Date.now() - lastHeartbeat > 15_000 && lose('no connection'), 5_000)
}

/**
 * Loads the page again once it has something else to show: one that changes by itself, although nothing has, would take
 * the keyboard's place in it, and be read out again.
 * @param {number} seconds
 */
function refresh(seconds) {
  const shown = document.querySelector('main')?.innerHTML
  setInterval(async () => {
    const text = await fetch(location.href, { headers: { accept: 'text/html' } }).then(
      (response) => response.text(),
      () => null,
    )
    const fresh =
      text === null ? null : new DOMParser().parseFromString(text, 'text/html').querySelector('main')
    if (fresh && withoutTimes(fresh.innerHTML) !== withoutTimes(shown ?? '')) location.reload()
  }, seconds * 1_000)
}

/** @param {string} html */
const withoutTimes = (html) => html.replaceAll(/<time [^>]*>[^<]*/g, '')

/** @param {string} text @param {boolean} lost */
function showConnection(text, lost) {
  document.body.classList.toggle('stale', lost)
  if (!connection) return
  connection.className = lost ? 'shown lost' : 'shown'
  // Unchanged text is not set again: a screen reader would repeat it.
  if (connection.textContent !== text) connection.textContent = text
}

/**
 * Replaces a part of the page, unless the user is in it: keyboard focus, or selected text.
 * @param {string} id @param {string} html @returns {boolean} whether the part was replaced
 */
function replace(id, html) {
  const old = document.getElementById(id)
  if (!old) return true
  const chosen = document.getSelection()
  if (
    old.contains(document.activeElement) ||
    (chosen && !chosen.isCollapsed && chosen.containsNode(old, true))
  )
    return false
  const template = document.createElement('template')
  template.innerHTML = html
  const fresh = template.content.firstElementChild
  if (!fresh) return true
  // What the user has opened stays open.
  const opened = [old, ...old.querySelectorAll('details[id]')].filter((one) => one.matches('details[open]'))
  for (const { id } of opened) fresh.parentNode?.querySelector(`#${CSS.escape(id)}`)?.setAttribute('open', '')
  old.replaceWith(fresh)
  updateTimes()
  return true
}

const UNITS = /** @type {const} */ ([
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
])

/** A time from now, rounded to its largest unit, as the server writes it. @param {number} ms */
function relativeText(ms) {
  if (Math.abs(ms) < 1_000) return 'now'
  const seconds = Math.abs(ms) / 1_000
  const [size] = UNITS.find(([length]) => seconds >= length) ?? [1]
  const rounded = Math.round(seconds / size) * size
  // Rounded up, it may be one of the next unit: 24 h are 1 d.
  const [length, unit] = UNITS.find(([one]) => rounded >= one) ?? [1, 's']
  return ms < 0 ? `${rounded / length} ${unit} ago` : `in ${rounded / length} ${unit}`
}

/** Updates relative times, and all times to the chosen zone. */
function updateTimes() {
  const now = Date.now()
  for (const time of document.querySelectorAll('time')) {
    const at = new Date(time.dateTime)
    const absolute = clockText(at, true)
    if (time.classList.contains('clock')) {
      if (time.textContent !== absolute) time.textContent = absolute
      continue
    }
    if (time.title !== absolute) time.title = absolute
    const text = relativeText(at.getTime() - now)
    if (time.textContent !== text) time.textContent = text
  }
}

/** @returns {boolean} whether times are shown in the zone of this machine; else in UTC */
function isLocal() {
  try {
    return localStorage.getItem('zone') === 'local'
  } catch {
    return false
  }
}

/** Lets the user choose the zone of all times: those of the page, of the charts and of the filters. */
function offerZones() {
  const group = document.getElementById('zone')
  if (!group) return
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone
  const show = () => {
    for (const button of group.querySelectorAll('button')) {
      button.setAttribute('aria-pressed', String((button.dataset['zone'] === 'local') === isLocal()))
      if (button.dataset['zone'] === 'local') button.title = own
    }
    for (const field of document.querySelectorAll('input[name="tz"]'))
      if (field instanceof HTMLInputElement) field.value = isLocal() ? own : 'UTC'
  }
  group.addEventListener('click', (event) => {
    if (!(event.target instanceof HTMLButtonElement)) return
    try {
      localStorage.setItem('zone', event.target.dataset['zone'] ?? 'utc')
    } catch {
      // The choice is not kept: storage is blocked.
    }
    show()
    updateTimes()
    redrawCharts()
  })
  group.hidden = false
  show()
}

/** `2026-11-22 14:03:11 UTC`, in the chosen zone. @param {Date} at @param {boolean} withDay */
function clockText(at, withDay) {
  const offset = isLocal() ? -at.getTimezoneOffset() : 0
  const shown = new Date(at.getTime() + offset * 60_000).toISOString()
  const time = shown.slice(11, 19)
  if (!withDay) return time
  const hours = Math.floor(Math.abs(offset) / 60)
  const minutes = Math.abs(offset) % 60
  const zone =
    offset === 0
      ? 'UTC'
      : `UTC${offset < 0 ? '−' : '+'}${hours}${minutes ? `:${String(minutes).padStart(2, '0')}` : ''}`
  return `${shown.slice(0, 10)} ${time} ${zone}`
}

/**
 * @typedef {{ name: string, color: string, look: 'area' | 'line' | 'dashed', values: (number | null)[] }} Series
 * @typedef {{ unit: 'per second' | 'ms', at: number[], series: Series[] }} Chart
 */

/** @type {Map<string, { plot: uPlot, chart: Chart }>} */
const charts = new Map()

/** Draws a chart, or gives it new data. @param {string} id @param {Chart} chart */
function showChart(id, chart) {
  const shown = charts.get(id)
  const names = (/** @type {Chart} */ one) => one.series.map(({ name }) => name).join()
  if (shown && names(shown.chart) === names(chart)) {
    shown.chart = chart
    shown.plot.setData(toColumns(chart))
    return
  }
  shown?.plot.destroy()
  const container = document.getElementById(id)
  if (container) charts.set(id, { plot: draw(container, chart), chart })
}

/** The canvas follows neither the colour scheme nor the zone by itself. */
function redrawCharts() {
  for (const [id, { plot, chart }] of charts) {
    plot.destroy()
    const container = document.getElementById(id)
    if (container) charts.set(id, { plot: draw(container, chart), chart })
  }
}

/** @param {Chart} chart */
const toColumns = ({ at, series }) =>
  /** @type {uPlot.AlignedData} */ ([at, ...series.map(({ values }) => values)])

/** @param {number} n @param {Chart['unit']} unit */
function formatValue(n, unit) {
  if (n === 0) return '0'
  if (unit === 'per second') return `${n.toFixed(n < 10 ? 1 : 0)}/s`
  return n < 1_000 ? `${Math.round(n)} ms` : `${(n / 1_000).toFixed(1)} s`
}

/** @param {HTMLElement} container @param {Chart} chart */
function draw(container, chart) {
  const { unit, series } = chart
  const style = getComputedStyle(document.documentElement)
  /** @param {string} name */
  const color = (name) => style.getPropertyValue(`--${name}`).trim()
  const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { show: false } }
  container.replaceChildren()
  return new uPlot(
    {
      ...sizeOf(container),
      // The last label of the time is centred on its tick, which may be at the right edge.
      padding: [null, 28, null, null],
      series: [
        { label: 'at', value: (_, at) => (at == null ? '–' : clockText(new Date(at * 1_000), false)) },
        ...series.map(
          ({ name, color: tone, look, values }) =>
            /** @type {uPlot.Series} */ ({
              label: name,
              stroke: color(tone),
              ...(look === 'area' && { fill: `${color(tone)}33` }),
              ...(look === 'dashed' && { dash: [5, 5] }),
              width: look === 'dashed' ? 1 : 1.5,
              // A line needs two points; fewer are dots.
              points: { show: look === 'line' && values.filter((one) => one != null).length < 3, size: 5 },
              // Calls may be minutes apart: the line joins them.
              spanGaps: look === 'line',
              value: (_, n) => (n == null ? '–' : formatValue(n, unit)),
            }),
        ),
      ],
      axes: [
        {
          ...axis,
          space: 80,
          values: (_, ticks) => {
            const isFine = (ticks[1] ?? 0) - (ticks[0] ?? 0) < 60
            return ticks.map((at) => clockText(new Date(at * 1_000), false).slice(0, isFine ? 8 : 5))
          },
        },
        { ...axis, size: 56, values: (_, ticks) => ticks.map((n) => formatValue(n, unit)) },
      ],
      scales: { y: { range: (_, _low, high) => [0, Math.max(unit === 'per second' ? 1 : 10, high * 1.1)] } },
      cursor: { drag: { x: false, y: false } },
      hooks: {
        // While nothing is pointed at, the legend shows the latest values.
        setCursor: [
          (plot) => {
            if (plot.cursor.idx == null) showLatest(plot)
          },
        ],
        ready: [showLatest],
      },
    },
    toColumns(chart),
    container,
  )
}

/** Shows the latest values in the legend. @param {uPlot} plot */
function showLatest(plot) {
  const values = plot.data[1] ?? []
  let idx = values.length - 1
  while (idx > 0 && values[idx] == null) idx--
  plot.setLegend({ idx }, false)
}

/** @param {HTMLElement} container */
const sizeOf = (container) => ({ width: container.clientWidth, height: 170 })

addEventListener('resize', () => {
  for (const [id, { plot }] of charts) {
    const container = document.getElementById(id)
    if (container) plot.setSize(sizeOf(container))
  }
})

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawCharts)

offerZones()
updateTimes()
for (const element of document.querySelectorAll('[data-chart]'))
  if (element instanceof HTMLElement) showChart(element.id, JSON.parse(element.dataset['chart'] ?? ''))
if (address !== undefined) live(address)
if (document.body.dataset['refresh'] !== undefined) refresh(Number(document.body.dataset['refresh']))
setInterval(updateTimes, 1_000)
