/** What a series of samples says, in the unit of the samples. */
export interface Summary {
  readonly n: number
  readonly median: number
  readonly min: number
  readonly p90: number
  readonly max: number
}

/** @throws {Error} where there is no sample: a figure of nothing is none */
export function summary(samples: readonly number[]): Summary {
  if (samples.length === 0) throw new Error('there was no sample')
  const sorted = [...samples].sort((a, b) => a - b)
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0
  const middle = sorted.length / 2
  const median = Number.isInteger(middle) ? ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2 : at(0.5)
  return { n: sorted.length, median, min: sorted[0] ?? 0, p90: at(0.9), max: sorted.at(-1) ?? 0 }
}

/** Three significant digits: more would be noise. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)))
}

/** Monotonic milliseconds that all processes of this machine share. */
export function sharedNowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
