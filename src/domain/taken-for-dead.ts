/** Another process has taken a run over, because this one could not say in time that it lives. Nothing is lost. */
export class TakenForDead extends Error {
  override readonly name = 'TakenForDead'
  constructor(run: number, leaseMs: number) {
    super(
      `run ${run} was taken for dead by another process, because it could not say for ${leaseMs / 1000} s that it lives ` +
        '(a machine that slept, or a database that was away?). Its rows are taken over; run again to finish what is left',
    )
  }
}
