import { describe, expect, test } from 'vitest'
import { openWaits, waitingFor } from './open-waits.ts'

describe('a wait', () => {
  test('is told while it lasts, with the last that was seen, and no longer', async () => {
    const event = Promise.withResolvers<string>()
    let seen = 'nothing'
    const waited = waitingFor(() => `the event; seen: ${seen}`, event.promise)

    seen = 'half of it'
    expect(openWaits()).toEqual(['the event; seen: half of it'])
    event.resolve('all of it')

    expect(await waited).toBe('all of it')
    expect(openWaits()).toEqual([])
  })

  test('that fails is told no longer either', async () => {
    await expect(waitingFor(() => 'what failed', Promise.reject(new Error('no')))).rejects.toThrow('no')

    expect(openWaits()).toEqual([])
  })

  test('with a bound of its own fails after it, and tells what it waited for', async () => {
    const never = new Promise<never>(() => undefined)

    await expect(waitingFor(() => 'the moon', never, 1)).rejects.toThrow('It did not happen within 1 ms: the moon')
  })
})
