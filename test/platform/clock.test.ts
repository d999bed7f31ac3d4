import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/platform/clock.ts'

const clock = systemClock()

describe('clock', () => {
  test('calls back once and never early', async () => {
    const startAtMs = clock.nowMs()
    let calls = 0
    await new Promise<void>((resolve) => {
      clock.after(15, () => {
        calls += 1
        resolve()
      })
    })

    expect(clock.nowMs() - startAtMs).toBeGreaterThanOrEqual(14.5)
    expect(calls).toBe(1)
  })

  test('does not call back what was cancelled, nor at once what is further away than a timer reaches', async () => {
    const called: string[] = []
    clock.after(1, () => called.push('cancelled')).cancel()
    const far = clock.after(2 ** 40, () => called.push('far'))
    await new Promise<void>((resolve) => {
      clock.after(5, resolve)
    })
    far.cancel()

    expect(called).toEqual([])
  })

  test('tells wall time in milliseconds', () => {
    expect(Math.abs(clock.wallMs() - Date.now())).toBeLessThan(1000)
  })
})
