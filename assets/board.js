// Live updates of the dashboard: replaces changed parts, updates relative times, redraws the chart.
// Without this script the page works, and shows the state at the time it was loaded.
import uPlot from './uplot.js'

const connection = document.getElementById('connection')

if (document.body.hasAttribute('data-live')) live()
setInterval(updateTimes, 1_000)

function live() {
  const events = new EventSource('/events')
  let lastHeartbeat = Date.now()
  /** @type {Map<string, string>} */
  const postponed = new Map()
  events.addEventListener('part', (event) => {
    const { id, html } = JSON.parse(event.data)
    if (!replace(id, html)) postponed.set(id, html)
    else postponed.delete(id)
  })
  events.addEventListener('chart', (event) => chart(JSON.parse(event.data)))
  events.addEventListener('beat', () => {
    lastHeartbeat = Date.now()
    showConnection('live', false)
    for (const [id, html] of postponed) if (replace(id, html)) postponed.delete(id)
  })
  events.addEventListener('fault', (event) => showConnection(event.data, true))
  events.addEventListener('error', () => showConnection('no connection, trying again', true))
  // A connection can end without an error event.
  setInterval(() => Date.now() - lastHeartbeat > 15_000 && showConnection('no connection', true), 5_000)
}

/** @param {string} text @param {boolean} lost */
function showConnection(text, lost) {
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
  if (old instanceof HTMLDetailsElement && fresh instanceof HTMLDetailsElement) fresh.open = old.open
  old.replaceWith(fresh)
  return true
}

const UNITS = /** @type {const} */ ([
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
])

/** Updates relative times, in the same format as the server. */
function updateTimes() {
  const now = Date.now()
  for (const time of document.querySelectorAll('time')) {
    const seconds = (Date.parse(time.dateTime) - now) / 1_000
    const [size, unit] = UNITS.find(([length]) => Math.abs(seconds) >= length) ?? [1, 's']
    const n = Math.floor(Math.abs(seconds) / size)
    const text = Math.abs(seconds) < 1 ? 'now' : seconds < 0 ? `${n} ${unit} ago` : `in ${n} ${unit}`
    if (time.textContent !== text) time.textContent = text
  }
}

/** @type {uPlot | null} */
let plot = null
/** @type {{ at: number[], answered: number[], throttled: number[], failed: number[], allowed: number | null } | null} */
let shown = null

/** @param {NonNullable<typeof shown>} data */
function chart(data) {
  shown = data
  const columns = /** @type {uPlot.AlignedData} */ ([
    data.at,
    data.answered,
    data.throttled,
    data.failed,
    data.at.map(() => data.allowed),
  ])
  if (plot) plot.setData(columns)
  else draw(columns)
}

/** @param {number} at in seconds @param {boolean} fine with seconds */
const clock = (at, fine) =>
  new Date(at * 1_000).toLocaleTimeString('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    ...(fine && { second: '2-digit' }),
  })

/** @param {uPlot.AlignedData} columns */
function draw(columns) {
  const container = document.getElementById('chart')
  if (!container) return
  const style = getComputedStyle(document.documentElement)
  /** @param {string} name */
  const color = (name) => style.getPropertyValue(`--${name}`).trim()
  /** @param {string} label @param {string} name @returns {uPlot.Series} */
  const line = (label, name) => ({
    label,
    stroke: color(name),
    fill: `${color(name)}33`,
    width: 1.5,
    points: { show: false },
    value: (_, n) => (n == null ? '–' : `${n.toFixed(1)}/s`),
  })
  const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { show: false } }
  container.replaceChildren()
  plot = new uPlot(
    {
      ...sizeOf(container),
      series: [
        { value: '{HH}:{mm}:{ss}' },
        line('answered', 'flow'),
        line('throttled (429)', 'warn'),
        line('failed', 'bad'),
        {
          label: 'allowed',
          stroke: color('soft'),
          dash: [5, 5],
          width: 1,
          points: { show: false },
          value: (_, n) => (n == null ? '–' : `${n.toFixed(1)}/s`),
        },
      ],
      axes: [
        {
          ...axis,
          space: 80,
          values: (_, ticks) => ticks.map((at) => clock(at, (ticks[1] ?? at) - (ticks[0] ?? at) < 60)),
        },
        { ...axis, size: 44, values: (_, ticks) => ticks.map((n) => String(n)) },
      ],
      scales: { y: { range: (_, _low, high) => [0, Math.max(1, high * 1.1)] } },
      cursor: { drag: { x: false, y: false } },
    },
    columns,
    container,
  )
}

/** @param {HTMLElement} container */
const sizeOf = (container) => ({ width: container.clientWidth, height: 180 })

addEventListener('resize', () => {
  const container = document.getElementById('chart')
  if (plot && container) plot.setSize(sizeOf(container))
})

// The canvas does not follow a change of the colour scheme by itself.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  plot?.destroy()
  plot = null
  if (shown) chart(shown)
})
