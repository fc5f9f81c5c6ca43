// Shows the page anew every few seconds, updates relative times, and shows all times in the chosen zone.
// Without this script the page works, and shows the state at the time it was loaded, in UTC.
const INTERVAL_MS = 3_000
const connection = document.getElementById('connection')

/** Fetches the page every few seconds, while it is in sight. */
function live() {
  let lastRead = Date.now()
  let shown = withoutTimes(document.querySelector('main'))
  const show = async () => {
    if (document.hidden) return
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } }).catch(() => null)
    const text = await answer?.text().catch(() => null)
    // A page that waits for something leads to it.
    if (answer?.redirected) return location.replace(answer.url)
    const fresh = text ? new DOMParser().parseFromString(text, 'text/html').querySelector('main') : null
    if (!fresh) {
      showConnection(
        `no connection, trying again; this is as of ${clockText(new Date(lastRead), false)}`,
        true,
      )
      return
    }
    lastRead = Date.now()
    showConnection(answer?.ok ? 'live' : 'trying again', false)
    const next = withoutTimes(fresh)
    if (next !== shown && replaceMain(fresh)) shown = next
  }
  const loop = () => setTimeout(() => show().finally(loop), INTERVAL_MS)
  document.addEventListener('visibilitychange', () => void show())
  showConnection('live', false)
  loop()
}

/** What a page says, without the relative times, which this script keeps. @param {Element | null} main */
const withoutTimes = (main) => (main?.innerHTML ?? '').replaceAll(/(<time [^>]*>)[^<]*/g, '$1')

/** @param {string} text @param {boolean} lost */
function showConnection(text, lost) {
  document.body.classList.toggle('stale', lost)
  if (!connection) return
  connection.className = lost ? 'shown lost' : 'shown'
  // Unchanged text is not set again: a screen reader would repeat it.
  if (connection.textContent !== text) connection.textContent = text
}

const FIELDS = 'input:not([type=hidden]), select, textarea'
const STOPS = `a[href], button, summary, ${FIELDS}`

/** What an element is known by on both pages. @param {Element} element */
const nameOf = (element) =>
  element.id || element.getAttribute('href') || element.getAttribute('name') || element.textContent?.trim()

/**
 * Replaces what the page shows. What the user has typed, opened and scrolled stays, and so does the place of the keyboard.
 * @param {Element} fresh @returns {boolean} whether it was replaced: not while text is selected
 */
function replaceMain(fresh) {
  const old = document.querySelector('main')
  const selection = document.getSelection()
  if (!old || (selection && !selection.isCollapsed && selection.containsNode(old, true))) return false
  for (const { id } of old.querySelectorAll('details[id][open]'))
    fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute('open', '')
  const fields = [...fresh.querySelectorAll(FIELDS)]
  for (const [n, field] of old.querySelectorAll(FIELDS).entries()) {
    const other = fields[n]
    if (other && nameOf(other) === nameOf(field)) copyField(field, other)
  }
  const focused = document.activeElement
  const wanted = focused && old.contains(focused) ? nameOf(focused) : null
  const [x, y] = [window.scrollX, window.scrollY]
  old.replaceWith(fresh)
  updateTimes()
  if (wanted !== null) {
    const place = [...fresh.querySelectorAll(STOPS)].find((one) => nameOf(one) === wanted)
    if (place instanceof HTMLElement) place.focus({ preventScroll: true })
    if (place instanceof HTMLInputElement && focused instanceof HTMLInputElement && focused.type === 'text')
      place.setSelectionRange(focused.selectionStart, focused.selectionEnd)
  }
  window.scrollTo(x, y)
  return true
}

/** @param {Element} from @param {Element} to */
function copyField(from, to) {
  if (from instanceof HTMLInputElement && to instanceof HTMLInputElement) {
    to.value = from.value
    to.checked = from.checked
  }
  if (from instanceof HTMLSelectElement && to instanceof HTMLSelectElement) to.value = from.value
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

/** Lets the user choose the zone of all times: on every page. */
function offerZones() {
  const group = document.getElementById('zone')
  if (!group) return
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone
  const show = () => {
    for (const button of group.querySelectorAll('button')) {
      button.setAttribute('aria-pressed', String((button.dataset['zone'] === 'local') === isLocal()))
      if (button.dataset['zone'] === 'local') button.title = own
    }
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
if (document.body.dataset['live'] !== undefined) live()
setInterval(updateTimes, 1_000)
