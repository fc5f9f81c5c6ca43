import { html, Html } from './html.ts'

/** What a chart shows. The page's script draws it; without JavaScript, it is a plain picture. */
export interface ChartData {
  readonly unit: 'per second' | 'ms'
  /** Seconds since the epoch. */
  readonly at: readonly number[]
  readonly series: readonly ChartSeries[]
}

interface ChartSeries {
  readonly name: string
  /** A colour of the style sheet. */
  readonly color: 'flow' | 'warn-fill' | 'bad' | 'soft'
  /** `area`: filled. `dashed`: a bound. */
  readonly look: 'area' | 'line' | 'dashed'
  /** Null: no value. */
  readonly values: ReadonlyArray<number | null>
}

/** A chart with its caption. @param id that of the element whose data live updates replace */
export function chartFigure(id: string, caption: string, data: ChartData): Html {
  const content = JSON.stringify(data)
  const { text } = html`<figure>
    <figcaption>${caption}</figcaption>
    <div id="${id}" class="chart" aria-hidden="true" data-chart="${content}">${staticChart(data)}</div>
  </figure>`
  return new Html(text, new Map([[id, { kind: 'chart', content }]]))
}

const WIDTH = 600
const HEIGHT = 120

/** The chart without JavaScript. */
function staticChart({ at, series }: ChartData): Html {
  const top = Math.max(1e-9, ...series.flatMap(({ values }) => values.map((value) => value ?? 0))) * 1.05
  const x = (n: number): string => ((n / Math.max(1, at.length - 1)) * WIDTH).toFixed(1)
  const y = (value: number): string => (HEIGHT - (value / top) * HEIGHT).toFixed(1)
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none">
    ${series.map(
      ({ color, look, values }) =>
        html`<path
          class="${color} ${look}"
          d="${values.map((value, n) => (value === null ? '' : `${(values[n - 1] ?? null) === null ? 'M' : 'L'}${x(n)},${y(value)}`)).join('')}"
        />`,
    )}
  </svg>`
}

/** Without the zeros that no other value is beside: a line on zero all the time reads as an error. */
export const withoutIdleZeros = (values: readonly number[]): (number | null)[] =>
  values.map((value, n) => (value === 0 && !values[n - 1] && !values[n + 1] ? null : value))
