import { InvalidArgumentError } from 'commander'
import { isMachineName, type Role, roles } from '../core/membership.ts'

/** Readers of flag values. Each throws with what would have been right; the parser adds the flag's name and exits with 2. */

export function wholeNumber(range: { readonly min: number; readonly max: number }): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < range.min || value > range.max) {
      throw new InvalidArgumentError(`Give a whole number from ${range.min} to ${range.max}.`)
    }
    return value
  }
}

export function positiveNumber(text: string): number {
  const value = Number(text)
  if (!/^\d+(\.\d+)?$/.test(text) || value <= 0) throw new InvalidArgumentError('Give a number above 0.')
  return value
}

const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `90s`, `10m`, `500ms`: milliseconds, ten years at most. */
export function span(range: { readonly minMs: number; readonly max?: string }): (text: string) => number {
  const max = range.max ?? '3650d'
  return (text) => {
    const valueMs = millisecondsOf(text)
    if (valueMs === undefined) throw new InvalidArgumentError('Give a number and a unit: 500ms, 90s, 15m, 2h, 7d.')
    if (valueMs < range.minMs || valueMs > (millisecondsOf(max) ?? 0)) {
      throw new InvalidArgumentError(`Give a span from ${range.minMs}ms to ${max}.`)
    }
    return valueMs
  }
}

function millisecondsOf(text: string): number | undefined {
  const [, count, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? []
  const unitMs = unitsMs[unit ?? '']
  return count === undefined || unitMs === undefined ? undefined : Number(count) * unitMs
}

export function machineName(text: string): string {
  if (!isMachineName(text)) throw new InvalidArgumentError('A name has 1 to 63 characters of a-z, 0-9 and -.')
  return text
}

export function role(text: string): Role {
  const found = roles.find((known) => known === text)
  if (found === undefined) throw new InvalidArgumentError(`Roles: ${roles.join(', ')}.`)
  return found
}

export function keyValue(text: string): readonly [string, string] {
  const cut = text.indexOf('=')
  if (cut < 1 || cut === text.length - 1) throw new InvalidArgumentError('Give NAME=VALUE.')
  return [text.slice(0, cut), text.slice(cut + 1)]
}

/** For flags that may be given several times. */
export function collect<T>(
  read: (text: string) => T,
): (text: string, earlier: readonly T[] | undefined) => readonly T[] {
  return (text, earlier) => [...(earlier ?? []), read(text)]
}

export const collectText = collect((text) => text)

/** An agent's id as a person gives it: whether such an agent exists is the hub's to say. */
export function agentId(text: string): string {
  if (!/^[\w-]{1,100}$/.test(text))
    throw new InvalidArgumentError('An agent id looks like agt_ and letters and digits.')
  return text
}
