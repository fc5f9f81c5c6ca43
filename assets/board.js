// Live updates of the dashboard: replaces changed parts, updates relative times, and shows all times in the chosen zone.
// Without this script the page works, and shows the state at the time it was loaded, in UTC.
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

/** Lets the user choose the zone of all times: those of the page and of the filters. */
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

offerZones()
updateTimes()
if (address !== undefined) live(address)
if (document.body.dataset['refresh'] !== undefined) refresh(Number(document.body.dataset['refresh']))
setInterval(updateTimes, 1_000)
