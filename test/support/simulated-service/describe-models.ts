import type { RateLimitModel } from '../../../src/service/rate-limit/model.ts'

/** What is known of the window by each way of counting. */
export const describeModels = ({ counters }: Pick<RateLimitModel, 'counters'>): string =>
  (['fixed', 'sliding', 'bucket'] as const)
    .map((name) => {
      const { isPossible, min, max } = counters[name]
      return `${name}${isPossible ? '' : ' contradicted'} ${Math.round(min)}..${Math.round(max)}`
    })
    .join(', ')
