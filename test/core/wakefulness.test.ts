import { describe, expect, test } from 'vitest'
import { missedMs, type Readings } from '../../src/core/wakefulness.ts'

const before: Readings = { monotonicMs: 1_000, wallMs: 1_700_000_000_000, uptimeMs: 50_000 }

function laterBy(elapsed: Partial<Readings>): Readings {
  return {
    monotonicMs: before.monotonicMs + (elapsed.monotonicMs ?? 1_000),
    wallMs: before.wallMs + (elapsed.wallMs ?? 1_000),
    uptimeMs: before.uptimeMs + (elapsed.uptimeMs ?? 1_000),
  }
}

describe('a tick of one second', () => {
  const jumps: [string, Partial<Readings>][] = [
    ['a laptop slept under Linux', { monotonicMs: 1_010, wallMs: 3_600_000, uptimeMs: 3_600_000 }],
    ['a virtual machine was paused', { wallMs: 90_000 }],
    ['the process was stopped', { monotonicMs: 6_001, wallMs: 6_001, uptimeMs: 6_001 }],
    ['only the time since the start of the machine moved on', { uptimeMs: 10_000 }],
  ]
  test.each(jumps)('tells that the process was not running when %s', (_name, elapsed) => {
    const longest = Math.max(...Object.values(elapsed))

    expect(missedMs(before, laterBy(elapsed), 1_000)).toBe(longest - 1_000)
  })

  test('is on time while it is at most 5 s late by every clock, and when a wall clock is put back', () => {
    expect(missedMs(before, laterBy({}), 1_000)).toBeUndefined()
    expect(missedMs(before, laterBy({ monotonicMs: 6_000, wallMs: 6_000, uptimeMs: 6_000 }), 1_000)).toBeUndefined()
    expect(missedMs(before, laterBy({ wallMs: -86_400_000 }), 1_000)).toBeUndefined()
  })
})
