import { randomBytes } from 'node:crypto'
import type { Random } from '../ports/random.ts'

/** The system's generator. */
export function systemRandom(): Random {
  return { next: () => Math.random(), bytes: (count) => randomBytes(count) }
}
