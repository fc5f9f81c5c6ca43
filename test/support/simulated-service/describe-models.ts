import type { RateLimitModel } from '../../../src/service/rate-limit/model.ts'

/** What is known of the window by each way of counting: `fixed 930..1100, sliding contradicted 1200..1100, bucket 0..Infinity`. */
export const describeModels = ({ models }: Pick<RateLimitModel, 'models'>): string =>
  Object.entries(models.all)
    .map(
      ([
        name,
        {
          isContradicted,
          bounds: { min, max },
        },
      ]) => `${name}${isContradicted ? ' contradicted' : ''} ${Math.round(min)}..${Math.round(max)}`,
    )
    .join(', ')
